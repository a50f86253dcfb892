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


def show(program: Program, path: str, with_layers: bool, as_json: bool) -> None:
    """Print what was compiled into `path`."""
    if as_json:
        print(json.dumps(document(program, path, with_layers), indent=2, allow_nan=False))
    else:
        print(text(program, path, with_layers))


def document(program: Program, path: str, with_layers: bool) -> dict[str, object]:
    """What `compile --json` prints."""
    found = tables.program_document(program, path)
    if not with_layers:
        return found
    from configurator import explain

    return found | {"explain": explain.document(program)}


def text(program: Program, path: str, with_layers: bool) -> str:
    """What `compile` prints."""
    found = tables.program_text(program, path)
    if not with_layers:
        return found
    from configurator import explain

    return f"{found}\n\n{explain.text(program)}"
