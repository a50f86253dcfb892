"""The commands: read the arguments, call, print. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.options import CompileOptions, Precision
from compiler.target import DEVICES, DeviceSpec, Sku, device
from configurator import export as vendor
from configurator import tables
from configurator.cli import arguments as args
from configurator.cli import (
    exits,
    explaining,
    inspecting,
    profiling,
    quantizing,
    specializing,
    validating,
)
from configurator.errors import UsageError
from configurator.records import Study, TrialRow, Workflow
from configurator.search import Sampler
from configurator.space import Choices
from configurator.tune import Stopped
from configurator.version import __version__
from runtime_sim.options import RunOptions, violations

if TYPE_CHECKING:
    from compiler.program import Program

app = typer.Typer(
    name="configurator",
    epilog=(
        "Exit codes: 0 ok, 2 usage, 3 no feasible configuration, 4 error above a limit, "
        "5 tool or device failure, "
        "130 interrupted."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Names may hold letters that the terminal's encoding lacks.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line, without the program's name; the exit code."""
    typed = list(arguments) or ["--help"]
    return exits.run(lambda: app(args=typed, prog_name="configurator", standalone_mode=False))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the best compile and run settings of an ONNX model for the Cloud AI 100."""


@app.command("tune")
def tune_(
    model: args.Model,
    workflow: args.WorkflowOption = Workflow.THROUGHPUT,
    sku: args.SkuOption = Sku.STD,
    trials: Annotated[
        int,
        typer.Option(metavar="N", parser=args.whole_number, help="Trials the study shall hold."),
    ] = 60,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name; an existing one is resumed.", show_default="MODEL-WORKFLOW"
        ),
    ] = None,
    storage: args.Storage = args.DEFAULT_STORAGE,
    symbol: args.Symbols = None,
    batch_symbol: args.BatchSymbol = None,
    input_shape: args.InputShapes = None,
    cores: args.CoresList = None,
    instances: args.InstancesList = None,
    batch_size: args.BatchSizeList = None,
    max_batch_size: args.MaxBatchSize = None,
    set_size: args.SetSizeList = None,
    ols: args.OlsOfStudy = 1,
    mos: args.MosOfStudy = 1,
    multicast_weights: args.Multicast = True,
    sampler: args.SamplerOption = Sampler.TPE,
    seed: Annotated[
        int,
        typer.Option(metavar="N", parser=args.whole_number, help="Same seed, same search."),
    ] = 0,
    cache_dir: args.CacheDir = None,
    json_: args.Json = False,
) -> None:
    """Search the best settings; the same command resumes."""
    choices = Choices(
        cores=args.parse_values("--cores", cores),
        instances=args.parse_values("--instances", instances),
        batch_sizes=args.batch_sizes(batch_size, max_batch_size),
        set_sizes=args.parse_values("--set-size", set_size),
        ols=ols,
        mos=mos,
        multicast_weights=multicast_weights,
        symbols=args.parse_symbols(symbol),
        input_shapes=args.parse_input_shapes(input_shape),
    )
    from configurator.cli import tuning

    asked = tuning.Asked(
        model=model,
        workflow=workflow,
        sku=sku,
        trials=trials,
        study=study,
        storage=storage,
        choices=choices,
        batch_symbol=batch_symbol,
        sampler=sampler,
        seed=seed,
        cache_dir=args.cache_directory(cache_dir),
    )
    result = tuning.search(asked, quiet=json_)
    if json_:
        _print_json(tables.outcome_document(tuning.outcome(result)))
    else:
        print(tuning.report(result, asked))
    if result.stopped is Stopped.INTERRUPTED:
        print(tuning.resume_hint(result), file=sys.stderr)
        raise typer.Exit(exits.INTERRUPTED)


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
    """Draw a study into PNG and SVG files."""
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
    """Print the qaic-exec and qaic-runner commands of a trial."""
    found, rows = _stored(study, storage)
    commands = vendor.commands(found, vendor.chosen(found, rows, trial))
    if json_:
        _print_json(vendor.document(found, commands))
    else:
        print(vendor.shell_text(commands))


@app.command()
def devices(json_: args.Json = False) -> None:
    """List the known cards, each number with its source."""
    if json_:
        _print_json(tables.devices_document(DEVICES))
    else:
        print(tables.devices_text(DEVICES))


@app.command("compile")
def compile_(
    model: args.Model,
    cores: args.Cores,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for programqpc.bin.")],
    batch_size: args.BatchSizeOfCompile = None,
    specializations: specializing.SpecializationsOption = None,
    sku: args.SkuOption = Sku.STD,
    symbol: args.Symbols = None,
    batch_symbol: args.BatchSymbol = None,
    ols: args.Ols = None,
    mos: args.Mos = None,
    multicast_weights: args.Multicast = True,
    input_shape: args.InputShapes = None,
    depth_first: args.DepthFirst = None,
    depth_first_mem: args.DepthFirstMem = None,
    size_split_granularity: args.SizeSplit = None,
    vtcm_working_set_limit_ratio: args.VtcmRatio = None,
    allocator_dealloc_delay: args.DeallocDelay = None,
    combine_inputs: args.CombineInputs = None,
    combine_outputs: args.CombineOutputs = None,
    sdp_cluster_sizes: args.SdpClusters = None,
    mxfp6_matmul: args.Mxfp6 = False,
    precision: quantizing.PrecisionOption = Precision.FP16,
    calibration: quantizing.CalibrationOption = None,
    exclude_node: quantizing.ExcludeNodes = None,
    exclude_op: quantizing.ExcludeOps = None,
    explain: explaining.Explain = False,
    json_: args.Json = False,
) -> None:
    """Compile a model into a folder, weights included."""
    options = CompileOptions(
        num_cores=cores,
        batch_size=specializing.batch_size_without(specializations, batch_size),
        ols=ols,
        mos=mos,
        multicast_weights=multicast_weights,
        symbols=args.parse_symbols(symbol),
        input_shapes=args.parse_input_shapes(input_shape),
        depth_first=depth_first,
        depth_first_mem_mib=depth_first_mem,
        size_split_granularity_kib=size_split_granularity,
        vtcm_working_set_limit_ratio=vtcm_working_set_limit_ratio,
        allocator_dealloc_delay=allocator_dealloc_delay,
        combine_inputs=combine_inputs,
        combine_outputs=combine_outputs,
        sdp_cluster_sizes=args.parse_sizes("--sdp-cluster-sizes", sdp_cluster_sizes),
        mxfp6_matmul=mxfp6_matmul,
        precision=precision,
    )
    from compiler import qpc
    from compiler.driver import OnnxCompiler
    from configurator.ranges import fp16_losses

    compiler = OnnxCompiler(batch_symbol=batch_symbol)
    shapes = specializing.options_of_each(compiler, model, options, batch_size, specializations)
    keeps, cache = (exclude_node, exclude_op), args.cache_directory(None) if calibration else None
    with quantizing.in_precision(
        model, precision, calibration, keeps, options.symbols, cache
    ) as chosen:
        programs = [compiler.compile(chosen, each, device(sku)) for each in shapes]
        quantizing.check_int8(programs[0], precision)
        graph = compiler.graph(chosen, shapes[0])
        _tell([*compiler.describe(chosen).notes, *map(str, fp16_losses(graph))])
        path = str(qpc.write(programs[0], out, graph, programs[1:]))
    if specializations is None:
        explaining.show(programs[0], path, explain, json_)
    else:
        specializing.show(programs, path, explain, json_)


@app.command()
def squash(
    model: args.Model,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
) -> None:
    """Put the weights that lie beside a model into one file with it."""
    from compiler.frontend.squash import squash as squashed

    print(f"wrote {out} ({squashed(model, out):,} bytes)")


app.command("inspect")(inspecting.inspect_command)
app.command("validate")(validating.validate_command)
app.command("quantize")(quantizing.quantize_command)
app.command("profile")(profiling.profile_command)


@app.command()
def simulate(
    qpc_dir: Annotated[Path, typer.Argument(metavar="QPC_DIR", help="What `compile` wrote.")],
    instances: args.Instances,
    set_size: args.SetSize = args.DEFAULT_SET_SIZE,
    sku: Annotated[
        Sku | None, typer.Option(help="The card. Default: the one it was compiled for.")
    ] = None,
    specialization: Annotated[
        int,
        typer.Option(
            metavar="N", parser=args.whole_number, help="Which of several shapes, from 0."
        ),
    ] = 0,
    json_: args.Json = False,
) -> None:
    """Run a compiled program on the simulated card."""
    program = _read_program(qpc_dir, specialization)
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
    input_shape: args.InputShapes = None,
    depth_first: args.DepthFirst = None,
    depth_first_mem: args.DepthFirstMem = None,
    size_split_granularity: args.SizeSplit = None,
    vtcm_working_set_limit_ratio: args.VtcmRatio = None,
    allocator_dealloc_delay: args.DeallocDelay = None,
    combine_inputs: args.CombineInputs = None,
    combine_outputs: args.CombineOutputs = None,
    sdp_cluster_sizes: args.SdpClusters = None,
    mxfp6_matmul: args.Mxfp6 = False,
    precision: quantizing.PrecisionOption = Precision.FP16,
    calibration: quantizing.CalibrationOption = None,
    exclude_node: quantizing.ExcludeNodes = None,
    exclude_op: quantizing.ExcludeOps = None,
    cache_dir: args.CacheDir = None,
    json_: args.Json = False,
) -> None:
    """Compile and simulate one point."""
    options = CompileOptions(
        num_cores=cores,
        batch_size=batch_size,
        ols=ols,
        mos=mos,
        multicast_weights=multicast_weights,
        symbols=args.parse_symbols(symbol),
        input_shapes=args.parse_input_shapes(input_shape),
        depth_first=depth_first,
        depth_first_mem_mib=depth_first_mem,
        size_split_granularity_kib=size_split_granularity,
        vtcm_working_set_limit_ratio=vtcm_working_set_limit_ratio,
        allocator_dealloc_delay=allocator_dealloc_delay,
        combine_inputs=combine_inputs,
        combine_outputs=combine_outputs,
        sdp_cluster_sizes=args.parse_sizes("--sdp-cluster-sizes", sdp_cluster_sizes),
        mxfp6_matmul=mxfp6_matmul,
        precision=precision,
    )
    run_options, spec = RunOptions(instances=instances, set_size=set_size), device(sku)
    _refuse(violations(run_options, cores, spec))
    from compiler.driver import OnnxCompiler

    cache, keeps = args.cache_directory(cache_dir), (exclude_node, exclude_op)
    compiler = OnnxCompiler(cache, batch_symbol)
    with quantizing.in_precision(
        model, precision, calibration, keeps, options.symbols, cache
    ) as chosen:
        _tell(compiler.describe(chosen).notes)
        program = compiler.compile(chosen, options, spec)
    quantizing.check_int8(program, precision)
    _simulate(program, run_options, spec, json_)


def _stored(name: str, storage: str) -> tuple[Study, tuple[TrialRow, ...]]:
    from configurator.store import open_store

    store = open_store(storage, create=False)
    return store.study(name), tuple(store.rows(name))


def _tell(warnings: Iterable[str]) -> None:
    """Say on stderr what was put right or will lose precision."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _refuse(reasons: tuple[str, ...]) -> None:
    if reasons:
        raise UsageError("; ".join(reasons))


def _read_program(directory: Path, specialization: int) -> Program:
    from compiler import qpc
    from compiler.errors import QpcError

    try:
        return qpc.read(directory, specialization)
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
