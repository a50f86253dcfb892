"""The `--specializations` of `compile`: several shapes of one network in one QPC."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.options import CompileOptions
from configurator.cli import explaining
from configurator.errors import UsageError
from configurator.specializations import Extents, merged, read_specializations
from configurator.tables import one_line

if TYPE_CHECKING:
    from compiler.driver import ModelFacts, OnnxCompiler
    from compiler.program import Program

SpecializationsOption = Annotated[
    Path | None,
    typer.Option(
        "--specializations",
        metavar="FILE",
        help="Several shapes in one QPC, as JSON: a list of extents by symbol, batch included.",
    ),
]


def batch_size_without(specializations: Path | None, batch_size: int | None) -> int:
    """The batch size where no entry says another; `UsageError` where nothing does."""
    if batch_size is None and specializations is None:
        raise UsageError("--batch-size is missing; give it, or shapes by --specializations FILE")
    return 1 if batch_size is None else batch_size


def options_of_each(
    compiler: OnnxCompiler,
    model: Path,
    options: CompileOptions,
    batch_size: int | None,
    path: Path | None,
) -> tuple[CompileOptions, ...]:
    """`options` once for each entry of the file at `path`, or as they are for None.

    `batch_size` and the symbols of `options` stand where an entry does not name them.
    """
    if path is None:
        return (options,)
    where = f"--specializations {path}"
    entries = read_specializations(path, where)
    facts = compiler.describe(model)
    return tuple(
        _options(f"{where}: entry {at}", facts, options, batch_size, entry)
        for at, entry in enumerate(entries)
    )


def _options(
    where: str,
    facts: ModelFacts,
    options: CompileOptions,
    batch_size: int | None,
    entry: Extents,
) -> CompileOptions:
    batch, named = facts.batch_symbol, dict(entry)
    _refuse_unknown(where, facts, entry)
    size = batch_size if batch is None else named.pop(batch, batch_size)
    if size is None:
        lever = "give --batch-size" if batch is None else f"add {batch}, or give --batch-size"
        raise UsageError(f"{where}: does not say the batch size; {lever}")
    symbols = merged(options.symbols, tuple(named.items()))
    return replace(options, batch_size=size, symbols=symbols)


def _refuse_unknown(where: str, facts: ModelFacts, entry: Extents) -> None:
    known = (*(() if facts.batch_symbol is None else (facts.batch_symbol,)), *facts.symbols)
    for name, extent in entry:
        if name not in known:
            raise UsageError(
                f"{where}: {name} is {extent}, but the model has no such symbol; "
                f"it has {', '.join(known) or 'none'}"
            )


def show(programs: Sequence[Program], path: str, explain: bool, as_json: bool) -> None:
    """Print what `compile` prints of one program, for each."""
    if as_json:
        each = [explaining.document(program, path, explain) for program in programs]
        print(json.dumps({"path": path, "specializations": each}, indent=2, allow_nan=False))
        return
    for number, program in enumerate(programs):
        title = one_line(f"specialization {number}: {_shape_text(program)}")
        print(title, explaining.text(program, path, explain), sep="\n\n", end="\n\n")
    print(f"run one of them: configurator simulate ... --specialization 0 to {len(programs) - 1}")


def _shape_text(program: Program) -> str:
    extents = (("batch size", program.options.batch_size), *program.options.symbols)
    return ", ".join(f"{name} {extent}" for name, extent in extents)
