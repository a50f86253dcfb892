"""The commands: read the arguments, call, print. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.options import CompileOptions
from compiler.target import DEVICES, DeviceSpec, Sku, device
from configurator import export as vendor
from configurator import tables
from configurator.cli import arguments as args
from configurator.cli import exits
from configurator.errors import UsageError
from configurator.records import Study, TrialRow
from runtime_sim.options import RunOptions, violations

if TYPE_CHECKING:
    from compiler.program import Program

app = typer.Typer(
    name="configurator",
    help="Find the best compile and run settings of an ONNX model for the Cloud AI 100.",
    epilog=(
        "Exit codes: 0 ok, 2 usage, 3 no feasible configuration, 5 tool or device failure, "
        "130 interrupted."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line, without the program's name; the exit code."""
    return exits.run(lambda: app(args=arguments, prog_name="configurator", standalone_mode=False))


@app.command()
def trials(
    study: args.StudyName,
    storage: args.Storage = args.DEFAULT_STORAGE,
    json_: args.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line a trial.")] = False,
) -> None:
    """List the trials of a study."""
    if json_ and csv:
        raise UsageError("--json and --csv exclude each other; give one")
    _, rows = _stored(study, storage)
    if json_:
        _print_json([tables.trial_document(row) for row in rows])
    else:
        print(
            tables.trials_csv(rows) if csv else tables.trials_text(rows), end="" if csv else "\n"
        )


@app.command()
def plot(
    study: args.StudyName,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the pictures.")],
    storage: args.Storage = args.DEFAULT_STORAGE,
) -> None:
    """Draw a study: Pareto front, batch sizes, cores x instances; PNG and SVG."""
    found, rows = _stored(study, storage)
    from configurator import plots

    for path in plots.save_all(found, rows, out):
        print(path)


@app.command()
def export(
    study: args.StudyName,
    trial: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=args.whole_number, help="Trial number. Default: the best."
        ),
    ] = None,
    storage: args.Storage = args.DEFAULT_STORAGE,
    json_: args.Json = False,
) -> None:
    """Print the qaic-exec and qaic-runner commands of the best trial, or of another."""
    found, rows = _stored(study, storage)
    commands = vendor.commands(found, vendor.chosen(found, rows, trial))
    if json_:
        _print_json(vendor.document(found, commands))
    else:
        print(vendor.shell_text(commands))


@app.command()
def devices(json_: args.Json = False) -> None:
    """List the cards that are known, each number with its source."""
    if json_:
        _print_json(tables.devices_document(DEVICES))
    else:
        print(tables.devices_text(DEVICES))


@app.command("compile")
def compile_(
    model: args.Model,
    cores: args.Cores,
    batch_size: args.BatchSize,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for programqpc.bin.")],
    sku: args.SkuOption = Sku.STD,
    symbol: args.Symbols = None,
    batch_symbol: args.BatchSymbol = None,
    ols: args.Ols = None,
    mos: args.Mos = None,
    multicast_weights: args.Multicast = True,
    json_: args.Json = False,
) -> None:
    """Compile a model with our own compiler."""
    options = _compile_options(cores, batch_size, ols, mos, multicast_weights, symbol)
    from compiler import qpc
    from compiler.driver import OnnxCompiler

    program = OnnxCompiler(batch_symbol=batch_symbol).compile(model, options, device(sku))
    path = str(qpc.write(program, out))
    if json_:
        _print_json(tables.program_document(program, path))
    else:
        print(tables.program_text(program, path))


@app.command()
def simulate(
    qpc_dir: Annotated[Path, typer.Argument(metavar="QPC_DIR", help="What `compile` wrote.")],
    instances: args.Instances,
    set_size: args.SetSize = args.DEFAULT_SET_SIZE,
    sku: Annotated[
        Sku | None, typer.Option(help="The card. Default: the one it was compiled for.")
    ] = None,
    json_: args.Json = False,
) -> None:
    """Run a compiled program on the simulated card."""
    program = _read_program(qpc_dir)
    spec = device(sku or program.sku)
    _simulate(program, RunOptions(instances=instances, set_size=set_size), spec, json_)


@app.command()
def run(
    model: args.Model,
    cores: args.Cores,
    instances: args.Instances,
    batch_size: args.BatchSize,
    set_size: args.SetSize = args.DEFAULT_SET_SIZE,
    sku: args.SkuOption = Sku.STD,
    symbol: args.Symbols = None,
    batch_symbol: args.BatchSymbol = None,
    ols: args.Ols = None,
    mos: args.Mos = None,
    multicast_weights: args.Multicast = True,
    cache_dir: args.CacheDir = None,
    json_: args.Json = False,
) -> None:
    """Compile a model and run it on the simulated card: one point."""
    options = _compile_options(cores, batch_size, ols, mos, multicast_weights, symbol)
    run_options, spec = RunOptions(instances=instances, set_size=set_size), device(sku)
    _refuse(violations(run_options, cores, spec))
    from compiler.driver import OnnxCompiler

    compiler = OnnxCompiler(args.cache_directory(cache_dir), batch_symbol)
    _simulate(compiler.compile(model, options, spec), run_options, spec, json_)


def _stored(name: str, storage: str) -> tuple[Study, tuple[TrialRow, ...]]:
    from configurator.store import open_store

    store = open_store(storage, create=False)
    return store.study(name), tuple(store.rows(name))


def _compile_options(
    cores: int,
    batch_size: int,
    ols: int | None,
    mos: int | None,
    multicast_weights: bool,
    symbols: list[str] | None,
) -> CompileOptions:
    return CompileOptions(
        num_cores=cores,
        batch_size=batch_size,
        ols=ols,
        mos=mos,
        multicast_weights=multicast_weights,
        symbols=args.parse_symbols(symbols),
    )


def _refuse(reasons: tuple[str, ...]) -> None:
    if reasons:
        raise UsageError("; ".join(reasons))


def _read_program(directory: Path) -> Program:
    from compiler import qpc
    from compiler.errors import QpcError

    try:
        return qpc.read(directory)
    except QpcError as error:
        raise UsageError(str(error)) from error


def _simulate(program: Program, options: RunOptions, spec: DeviceSpec, as_json: bool) -> None:
    from runtime_sim.simulator import SimulatorBackend

    measured = SimulatorBackend(spec).run(program, options)
    point = (program, options.instances, options.set_size, measured)
    if as_json:
        _print_json(tables.run_document(*point))
    else:
        print(tables.run_text(*point))


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))
