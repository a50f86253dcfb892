"""The `profile` command: where the time of an inference went."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from compiler.options import CompileOptions, Precision
from compiler.target import DeviceSpec, Sku, device
from configurator.cli import arguments as args
from configurator.cli import quantizing
from configurator.cli.progress import said_when_slow
from configurator.errors import UsageError
from runtime_sim.options import RunOptions, violations

if TYPE_CHECKING:
    from compiler.program import Program
    from configurator.profile.versus import Comparison
    from runtime_sim.profile.profile import Profile

DEFAULT_LAYERS = 15
DEFAULT_SHOWN = 3
"""assumed: what fits a screen; inferences enough to see where one follows another."""

_OF_A_QPC = ("model", "instances", "set_size", "sku", "specialization")
_OF_THE_COMMAND = ("trace", "trace_inferences", "versus", "layers", "json_")


def _layer_count(text: str | int) -> int:
    """A whole number, or `all` as 0."""
    return 0 if text == "all" else args.whole_number(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A point as it is asked for, under the names of the command's parameters."""

    model: Path
    instances: int
    cores: int | None
    batch_size: int | None
    set_size: int
    sku: Sku | None
    specialization: int | None
    symbol: list[str] | None
    batch_symbol: str | None
    ols: int | None
    mos: int | None
    multicast_weights: bool
    input_shape: list[str] | None
    depth_first: bool | None
    depth_first_mem: int | None
    size_split_granularity: int | None
    vtcm_working_set_limit_ratio: float | None
    allocator_dealloc_delay: int | None
    combine_inputs: bool | None
    combine_outputs: bool | None
    sdp_cluster_sizes: str | None
    mxfp6_matmul: bool
    precision: Precision
    calibration: Path | None
    exclude_node: list[str] | None
    exclude_op: list[str] | None
    cache_dir: Path | None

    @property
    def is_qpc(self) -> bool:
        """Whether it is compiled already: a folder, or the file in it."""
        return self.model.is_dir() or self.model.suffix == ".bin"


class _Parsed(Protocol):
    """A parsed command line; typer keeps the class of those that it did not make itself."""

    params: dict[str, Any]

    def get_parameter_source(self, name: str, /) -> Enum | None:
        """Where a parameter's value is from."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Knobs, and which of them were given."""

    knobs: Knobs
    given: frozenset[str]


def profile_command(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The ONNX model file, or what `compile` wrote."),
    ],
    instances: args.Instances,
    cores: Annotated[
        int | None,
        typer.Option(metavar="N", parser=args.whole_number, help="NSPs of one instance."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(metavar="N", parser=args.whole_number, help="Samples of one inference."),
    ] = None,
    set_size: args.SetSize = args.DEFAULT_SET_SIZE,
    sku: Annotated[
        Sku | None,
        typer.Option(
            help="The card. Default: std, or the one that MODEL was compiled for.",
            show_default=False,
        ),
    ] = None,
    specialization: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=args.whole_number,
            help="Which of several shapes of a compiled MODEL, from 0.",
        ),
    ] = None,
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
    versus: Annotated[
        str | None,
        typer.Option(
            metavar="'[MODEL] OPTIONS'|FILE.json",
            help="Compare with a second run: options that differ, or what --json printed earlier.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Write a trace for ui.perfetto.dev, of what is run here."
        ),
    ] = None,
    trace_inferences: Annotated[
        int,
        typer.Option(metavar="N", parser=args.whole_number, help="Inferences in the trace."),
    ] = DEFAULT_SHOWN,
    layers: Annotated[
        int,
        typer.Option(metavar="N|all", parser=_layer_count, help="Layers in the tables."),
    ] = DEFAULT_LAYERS,
    json_: args.Json = False,
) -> None:
    """Show where the time of an inference went, by part, operator and layer."""
    if layers < 0:
        raise UsageError(f"--layers {layers}: must be 1 or more, or all")
    if trace_inferences < 1:
        raise UsageError(f"--trace-inferences {trace_inferences}: must be 1 or more")
    asked = _asked(context)
    saved = versus is not None and _is_saved(versus)
    points = [asked]
    if versus is not None and not saved:
        points.append(_second(context, asked, versus))
    found = [_profiled(point, quiet=json_) for point in points]
    _show(found, Path(versus) if versus is not None and saved else None, layers or None, json_)
    if trace is not None:
        _write_trace(trace, found, trace_inferences, quiet=json_)


def _asked(context: _Parsed) -> Asked:
    """The parameters of a command line as parsed; `--versus` is read by the same parser."""
    names = [field.name for field in fields(Knobs)]
    given = (name for name in context.params if _is_given(context, name))
    return Asked(Knobs(**_values(context.params, names)), frozenset(given))


def _is_given(context: _Parsed, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _values(params: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Options that repeat come as empty tuples where none is given."""
    return {name: None if params[name] == () else params[name] for name in names}


def _is_saved(versus: str) -> bool:
    return versus.endswith(".json")


def _second(context: typer.Context, first: Asked, text: str) -> Asked:
    """The first point with what `text` gives in its place."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--versus {text}: {error}") from error
    if not words:
        raise UsageError("--versus: is empty; give options, like --versus '--cores 4'")
    lead = [] if not words[0].startswith("-") else [str(first.knobs.model)]
    needed = ["--instances", str(first.knobs.instances)]
    parsed = context.command.make_context("profile", [*needed, *lead, *words], context.parent)
    asked = _asked(parsed)
    wrong = asked.given.intersection(_OF_THE_COMMAND)
    if wrong:
        named = ", ".join("--" + name.strip("_").replace("_", "-") for name in sorted(wrong))
        raise UsageError(f"--versus {text}: {named} cannot be given for one of two runs")
    changes = {name: getattr(asked.knobs, name) for name in asked.given}
    return Asked(replace(first.knobs, **changes), first.given | asked.given)


def _profiled(asked: Asked, *, quiet: bool) -> Profile:
    knobs = asked.knobs
    told = f"compiling and simulating {knobs.model}"
    with said_when_slow(told, quiet=quiet):
        program, spec = _read(asked) if knobs.is_qpc else _compiled(asked)
        from runtime_sim.profile.profile import profile

        return profile(program, spec, _run_options(knobs))


def _run_options(knobs: Knobs) -> RunOptions:
    return RunOptions(instances=knobs.instances, set_size=knobs.set_size)


def _read(asked: Asked) -> tuple[Program, DeviceSpec]:
    """A compiled model: only how it runs can be chosen."""
    from compiler import qpc
    from compiler.errors import QpcError

    knobs = asked.knobs
    wrong = asked.given.difference(_OF_A_QPC, _OF_THE_COMMAND, {"cache_dir"})
    if wrong:
        named = ", ".join("--" + name.replace("_", "-") for name in sorted(wrong))
        raise UsageError(f"{knobs.model}: is compiled already; leave out {named}")
    try:
        program = qpc.read(knobs.model, knobs.specialization or 0)
    except QpcError as error:
        raise UsageError(str(error)) from error
    return program, device(knobs.sku or program.sku)


def _compiled(asked: Asked) -> tuple[Program, DeviceSpec]:
    knobs, spec = asked.knobs, device(asked.knobs.sku or Sku.STD)
    if knobs.specialization is not None:
        raise UsageError("--specialization is for a compiled MODEL; give shapes by --symbol")
    options = _compile_options(knobs)
    refused = violations(_run_options(knobs), options.num_cores, spec)
    if refused:
        raise UsageError("; ".join(refused))
    from compiler.driver import OnnxCompiler

    cache = args.cache_directory(knobs.cache_dir)
    keeps = (knobs.exclude_node, knobs.exclude_op)
    compiler = OnnxCompiler(cache, knobs.batch_symbol)
    with quantizing.in_precision(
        knobs.model, knobs.precision, knobs.calibration, keeps, options.symbols, cache
    ) as chosen:
        for note in compiler.describe(chosen).notes:
            print(f"warning: {note}", file=sys.stderr)
        program = compiler.compile(chosen, options, spec)
    quantizing.check_int8(program, knobs.precision)
    return program, spec


def _compile_options(knobs: Knobs) -> CompileOptions:
    if knobs.cores is None or knobs.batch_size is None:
        missing = "--cores" if knobs.cores is None else "--batch-size"
        raise UsageError(f"{missing} is missing: {knobs.model} must be compiled first")
    return CompileOptions(
        num_cores=knobs.cores,
        batch_size=knobs.batch_size,
        ols=knobs.ols,
        mos=knobs.mos,
        multicast_weights=knobs.multicast_weights,
        symbols=args.parse_symbols(knobs.symbol),
        input_shapes=args.parse_input_shapes(knobs.input_shape),
        depth_first=knobs.depth_first,
        depth_first_mem_mib=knobs.depth_first_mem,
        size_split_granularity_kib=knobs.size_split_granularity,
        vtcm_working_set_limit_ratio=knobs.vtcm_working_set_limit_ratio,
        allocator_dealloc_delay=knobs.allocator_dealloc_delay,
        combine_inputs=knobs.combine_inputs,
        combine_outputs=knobs.combine_outputs,
        sdp_cluster_sizes=args.parse_sizes("--sdp-cluster-sizes", knobs.sdp_cluster_sizes),
        mxfp6_matmul=knobs.mxfp6_matmul,
        precision=knobs.precision,
    )


def _show(found: list[Profile], saved: Path | None, layers: int | None, as_json: bool) -> None:
    from configurator.profile import report, versus

    documents = [report.document(each) for each in found]
    sides = [versus.side_of(each, "the run") for each in documents]
    sides += [] if saved is None else [versus.read_side(saved)]
    compared = versus.compare(*sides) if len(sides) > 1 else None
    if as_json:
        print(json.dumps(_document(documents, compared), indent=2, allow_nan=False))
    elif compared is None:
        print(report.text(found[0], layers))
    else:
        print(versus.text(compared, layers))


def _document(
    documents: list[dict[str, object]], compared: Comparison | None
) -> dict[str, object]:
    """The first run; with a second, that one and the differences beside it."""
    if compared is None:
        return documents[0]
    from configurator.profile import versus

    second = {"second": documents[1]} if len(documents) > 1 else {}
    return {**documents[0], **second, "versus": versus.document(compared)}


def _write_trace(path: Path, found: list[Profile], inferences: int, *, quiet: bool) -> None:
    from configurator.profile.report import document
    from configurator.profile.trace import write_trace
    from configurator.profile.versus import title_of

    runs = [(f"{title_of(document(each))} (one of them)", each) for each in found]
    write_trace(path, runs, inferences)
    if not quiet:
        print(f"\nwrote {path}: open it in ui.perfetto.dev")
