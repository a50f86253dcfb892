"""Options as what is to be compiled, written and printed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.options import CompileOptions, with_mos_in_reach
from compiler.target import DeviceSpec, Sku, device
from configurator.errors import UsageError
from configurator.qaic_exec.quantizing import Quantization, quantization_of
from configurator.vendor_cli import values
from configurator.vendor_cli.card import sku_named
from configurator.vendor_cli.flag import Effect
from configurator.vendor_cli.line import CommandLine

# The real tool compiles for a generation, not for a card: cores go up to those of the largest.
_SMALL, _LARGE = Sku.STD, Sku.PRO

_NO_FP16 = "-convert-to-fp16 is not given: floats are computed in fp16 all the same"


@dataclass(frozen=True, slots=True)
class InputShape:
    """One `-model-input`; an extent is `None` where `*` was written."""

    name: str
    type: str
    extents: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What is printed beside the usual lines."""

    metrics: bool
    warnings: bool
    ddr: bool
    times: bool
    profiling: tuple[str, ...]
    stats_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command line that compiles.

    `options` hold all but the shapes: those follow from `symbols`, `batch_size` and
    `input_shapes` once the model is known, for each entry of `specializations` anew.
    `binary_dir` is `None` where nothing is to be written.
    """

    model: Path
    options: CompileOptions
    symbols: tuple[tuple[str, int], ...]
    batch_size: int | None
    input_shapes: tuple[InputShape, ...]
    specializations: Path | None
    template: Path | None
    quantization: Quantization | None
    device: DeviceSpec
    instances: int
    binary_dir: Path | None
    compile_only: bool
    stats_batch_size: int
    reports: Reports
    verbosity: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def request_of(given: CommandLine, environment: Mapping[str, str] = os.environ) -> Request:
    """What the options ask for; raises `UsageError` where they cannot be followed."""
    _refuse(given)
    model = given.text("-m")
    if model is None:
        raise UsageError("no model is given; give -m=MODEL.onnx")
    asked = _options(given)
    options = with_mos_in_reach(asked)
    binary_dir, template = given.text("-aic-binary-dir"), _template(given)
    specializations = given.text("-network-specialization-config")
    return Request(
        model=Path(model),
        options=options,
        symbols=_symbols(given),
        batch_size=given.whole("-batchsize"),
        input_shapes=_input_shapes(given),
        specializations=None if specializations is None else Path(specializations),
        template=template,
        quantization=quantization_of(given),
        device=_device(options.num_cores, environment),
        instances=given.whole("-aic-num-of-instances") or 1,
        binary_dir=None if binary_dir is None else Path(binary_dir),
        compile_only=given.has("-compile-only"),
        stats_batch_size=given.whole("-stats-batchsize") or 1,
        reports=_reports(given),
        verbosity=given.verbosity,
        notes=_notes(given),
        warnings=(*_warnings(given), *_lowered(given, asked, options)),
    )


def _refuse(given: CommandLine) -> None:
    for flag in given.having(Effect.REFUSED):
        raise UsageError(f"{flag.name}: {flag.remark}")
    if given.text("-aic-hw-version") == "ai200":
        raise UsageError("-aic-hw-version=ai200: only the Cloud AI 100 (2.0, ai100) is known here")


def _options(given: CommandLine) -> CompileOptions:
    clusters, mos = given.wholes("-sdp-cluster-sizes"), given.wholes("-mos")
    if len(mos) > 1 and not clusters:
        raise UsageError(
            f"-mos={given.text('-mos')}: a list has one number for each cluster, and "
            "-sdp-cluster-sizes is not given"
        )
    ratio = given.text("-vtcm-working-set-limit-ratio")
    return CompileOptions(
        num_cores=given.whole("-aic-num-cores") or 1,
        ols=given.whole("-ols"),
        mos=mos[0] if len(mos) == 1 else None,
        multicast_weights=given.has("-multicast-weights"),
        depth_first=True if given.has("-aic-enable-depth-first") else None,
        depth_first_mem_mib=given.whole("-aic-depth-first-mem"),
        size_split_granularity_kib=given.whole("-size-split-granularity"),
        vtcm_working_set_limit_ratio=None if ratio is None else float(ratio),
        allocator_dealloc_delay=given.whole("-allocator-dealloc-delay"),
        combine_inputs=given.truth("-combine-inputs"),
        combine_outputs=given.truth("-combine-outputs"),
        sdp_cluster_sizes=clusters,
        cluster_mos=mos if len(mos) > 1 else (),
        mxfp6_matmul=given.has("-mxfp6-matmul"),
    )


def _symbols(given: CommandLine) -> tuple[tuple[str, int], ...]:
    extents: dict[str, int] = {}
    for name, extent in map(values.split_symbol, given.texts("-onnx-define-symbol")):
        if extents.setdefault(name, extent) != extent:
            raise UsageError(
                f"-onnx-define-symbol={name},{extent}: {name} is also given as {extents[name]}"
            )
    return tuple(sorted(extents.items()))


def _input_shapes(given: CommandLine) -> tuple[InputShape, ...]:
    found = [InputShape(*values.split_model_input(text)) for text in given.texts("-model-input")]
    names = [shape.name for shape in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"-model-input={name}: is given {names.count(name)} times")
    return tuple(found)


def _template(given: CommandLine) -> Path | None:
    text = given.text("-dump-custom-IO-config-template")
    return None if text is None else Path(text)


def _device(num_cores: int, environment: Mapping[str, str]) -> DeviceSpec:
    named = sku_named(environment)
    if named is not None:
        return device(named)
    small = device(_SMALL)
    return small if num_cores <= small.nsps else device(_LARGE)


def _reports(given: CommandLine) -> Reports:
    return Reports(
        metrics=given.has("-aic-perf-metrics"),
        warnings=given.has("-aic-perf-warnings"),
        ddr=given.has("-ddr-stats"),
        times=given.has("-time-passes"),
        profiling=tuple(dict.fromkeys(given.texts("-aic-profiling-type"))),
        stats_level=given.whole("-stats-level") or 0,
    )


def _notes(given: CommandLine) -> tuple[str, ...]:
    idle = [flag.name for flag in given.having(Effect.NOTED)]
    return (f"without effect here: {', '.join(idle)}",) if idle else ()


def _lowered(
    given: CommandLine, asked: CompileOptions, options: CompileOptions
) -> tuple[str, ...]:
    """What is said where mos asks for more cores than there are, which the real tool takes."""
    if options == asked:
        return ()
    sizes, mos = options.sdp_cluster_sizes, options.cluster_mos or (options.mos,)
    there = f"clusters of {_listed(sizes)}" if sizes else f"{options.num_cores}"
    return (f"-mos={given.text('-mos')}: cores are {there}; compiled as -mos={_listed(mos)}",)


def _listed(numbers: Iterable[int | None]) -> str:
    return ",".join(map(str, numbers))


def _warnings(given: CommandLine) -> tuple[str, ...]:
    warned = [f"{flag.name}: {flag.remark}" for flag in given.having(Effect.WARNED)]
    return (*warned, *(() if given.has("-convert-to-fp16") else (_NO_FP16,)))
