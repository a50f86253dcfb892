"""The `--explain` of `compile`: what was decided for each layer, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from configurator import tables

if TYPE_CHECKING:
    from compiler.program import Program

Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Print each layer: split, tiles, VTCM, DDR traffic, MACs, and why."
    ),
]


def show(program: Program, path: str, as_json: bool) -> None:
    """Print what `compile` prints, and the layers."""
    from configurator import explain

    if as_json:
        document = tables.program_document(program, path) | {"explain": explain.document(program)}
        print(json.dumps(document, indent=2, allow_nan=False))
    else:
        print(tables.program_text(program, path), explain.text(program), sep="\n\n")
