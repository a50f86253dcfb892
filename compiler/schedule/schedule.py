"""A bound graph, options and a device to a program: plan, memory, tasks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from compiler.errors import DoesNotFitError
from compiler.ir.graph import Graph
from compiler.options import CompileOptions
from compiler.program import Binding, Layer, MemoryUse, Program
from compiler.schedule.batches import DepthFirst, plan_batches
from compiler.schedule.clusters import joined, stages_of
from compiler.schedule.limits import STREAM_BYTES, limits_of
from compiler.schedule.lower import Lowered, lower
from compiler.schedule.partition import Cluster
from compiler.schedule.plan import DEFAULT_OLS
from compiler.schedule.reads import Reads
from compiler.schedule.residency import MIB, Residency, with_streaming
from compiler.schedule.steps import Step, ddr_bytes, steps_of
from compiler.target import DeviceSpec
from compiler.version import compiler_version


def compile_graph(graph: Graph, options: CompileOptions, device: DeviceSpec) -> Program:
    """The program of a graph that is bound and optimised already; it belongs to no file."""
    return schedule(prepare(graph), options, device, "")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What every compilation of one bound graph shares."""

    name: str
    steps: tuple[Step, ...]
    reads: Reads
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    constants_bytes: int


def prepare(graph: Graph) -> Prepared:
    """The steps and bindings of a bound, optimised graph."""
    reads = Reads(graph)
    return Prepared(
        graph.name,
        steps_of(graph, reads),
        reads,
        tuple(_binding(graph, name) for name in graph.inputs),
        tuple(_binding(graph, name) for name in graph.outputs),
        _constants_bytes(graph),
    )


def schedule(
    prepared: Prepared, options: CompileOptions, device: DeviceSpec, model_sha256: str
) -> Program:
    """The program of a prepared graph; raises `DoesNotFitError` where a memory is too small."""
    _check_ddr(prepared, 0, device)
    stages = _stages(prepared, options, device)
    lowered = joined([stage for _, stage in stages], options.sdp_cluster_sizes)
    residencies = [residency for residency, _ in stages]
    return Program(
        model_name=prepared.name,
        model_sha256=model_sha256,
        compiler_version=compiler_version(),
        sku=device.sku,
        options=options,
        chosen=_chosen(options, stages),
        inputs=prepared.inputs,
        outputs=prepared.outputs,
        memory=_memory(prepared, residencies, lowered, device),
        layers=lowered.layers,
        tasks=lowered.tasks,
        tiles=lowered.tiles,
        input_transfers=_transfers(options.combine_inputs, len(prepared.inputs)),
        output_transfers=_transfers(options.combine_outputs, len(prepared.outputs)),
        stage_cores=options.sdp_cluster_sizes if len(stages) > 1 else (),
    )


def _stages(
    prepared: Prepared, options: CompileOptions, device: DeviceSpec
) -> list[tuple[Residency, Lowered]]:
    """Each cluster's plan and tasks; one of all cores where no clusters are asked for."""
    sizes = options.sdp_cluster_sizes
    if len(sizes) < 2:
        return [_stage(prepared.steps, prepared.reads, options, options.num_cores, device)]
    parts = stages_of(prepared.steps, sizes)
    mos = options.cluster_mos or (options.mos,) * len(sizes)
    return [
        _stage(steps, prepared.reads, replace(options, mos=own), size, device)
        for steps, size, own in zip(parts, sizes, mos, strict=True)
    ]


def _stage(
    steps: tuple[Step, ...],
    reads: Reads,
    options: CompileOptions,
    num_cores: int,
    device: DeviceSpec,
) -> tuple[Residency, Lowered]:
    cluster = Cluster(num_cores, options.mos, options.multicast_weights)
    limits, depth_first = limits_of(options, device), _depth_first(options)
    groups, residency = plan_batches(steps, reads, cluster, options.ols, limits, depth_first)
    streamed = with_streaming(groups, residency)
    return residency, lower(streamed, residency, reads, cluster)


def _constants_bytes(graph: Graph) -> int:
    """Bytes of all constants as stored; what several names share counts once."""
    return sum({id(c.load): ddr_bytes(c) for c in graph.constants.values()}.values())


def _binding(graph: Graph, name: str) -> Binding:
    type_ = graph.types[name]
    return Binding(name, type_.dtype, type_.shape, type_.size_bytes)


def _memory(
    prepared: Prepared, residencies: list[Residency], lowered: Lowered, device: DeviceSpec
) -> MemoryUse:
    buffers = sum(binding.size_bytes for binding in (*prepared.inputs, *prepared.outputs))
    per_instance = lowered.spill_bytes + 2 * buffers
    _check_ddr(prepared, per_instance, device)
    peak = max(residency.peak_bytes for residency in residencies)
    return MemoryUse(prepared.constants_bytes, per_instance, peak)


def _check_ddr(prepared: Prepared, per_instance_bytes: int, device: DeviceSpec) -> None:
    needed = prepared.constants_bytes + per_instance_bytes
    if needed > device.ddr_bytes:
        raise DoesNotFitError(
            f"needs {needed / 1e9:.1f} GB of DDR for weights and buffers, {device.sku.value} has "
            f"{device.ddr_bytes / 1e9:.1f} GB; lower batch size or use a card with more memory"
        )


def _depth_first(options: CompileOptions) -> DepthFirst:
    """The memory of a chain is that of all cores together."""
    memory = options.depth_first_mem_mib
    wanted = options.depth_first if options.depth_first is not None or memory is None else True
    return DepthFirst(wanted, None if memory is None else memory * MIB // options.num_cores)


def _transfers(combined: bool | None, bindings: int) -> int:
    """Requests that the host makes: one, unless it is told to move each binding by itself."""
    return max(1, bindings) if combined is False else 1


def _chosen(
    options: CompileOptions, stages: list[tuple[Residency, Lowered]]
) -> tuple[tuple[str, str], ...]:
    """What the compiler decided where the options left it open, by the option's name."""
    resident = all(residency.weights_resident for residency, _ in stages)
    layers = [layer for _, lowered in stages for layer in lowered.layers]
    defaults = (
        ("ols", options.ols, str(DEFAULT_OLS)),
        ("mos", options.cluster_mos or options.mos, _mos_of(layers)),
        ("depth-first", options.depth_first, _parts_of(layers)),
        ("size-split-granularity", options.size_split_granularity_kib, f"{STREAM_BYTES >> 10}"),
        ("vtcm-working-set-limit-ratio", options.vtcm_working_set_limit_ratio, "1"),
        ("allocator-dealloc-delay", options.allocator_dealloc_delay, "until room is needed"),
        ("combine-inputs", options.combine_inputs, "true"),
        ("combine-outputs", options.combine_outputs, "true"),
    )
    weights = ("weights", "resident" if resident else "streamed")
    return (weights, *((name, found) for name, asked, found in defaults if asked is None))


def _mos_of(layers: list[Layer]) -> str:
    """Like `1 in 40 layers, 4 in 13`, of those that have weights."""
    count = Counter(_channel_split(layer) for layer in layers if layer.weight_bytes and layer.macs)
    if len(count) < 2:
        return str(next(iter(count), 1))
    found = [f"{split} in {number}" for split, number in sorted(count.items())]
    return f"{found[0]} layers, {', '.join(found[1:])}"


def _channel_split(layer: Layer) -> int:
    return int(layer.split.rpartition(" ")[2])


def _parts_of(layers: list[Layer]) -> str:
    """Whether layers occur several times, each for a part of the batch."""
    most = max(Counter(layer.name for layer in layers).values())
    return "off" if most == 1 else f"on, the batch in {most} parts"
