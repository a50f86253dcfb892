"""A bound graph, options and a device to a program: plan, memory, tasks."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import DoesNotFitError
from compiler.ir.graph import Graph
from compiler.options import CompileOptions
from compiler.program import Binding, MemoryUse, Program
from compiler.schedule.batches import DepthFirst, plan_batches
from compiler.schedule.limits import limits_of
from compiler.schedule.lower import Lowered, lower
from compiler.schedule.partition import Cluster
from compiler.schedule.plan import DEFAULT_OLS
from compiler.schedule.reads import Reads
from compiler.schedule.residency import MIB, Residency, with_streaming
from compiler.schedule.steps import Step, steps_of, stored_bytes
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
        sum(stored_bytes(constant.type) for constant in graph.constants.values()),
    )


def schedule(
    prepared: Prepared, options: CompileOptions, device: DeviceSpec, model_sha256: str
) -> Program:
    """The program of a prepared graph; raises `DoesNotFitError` where a memory is too small."""
    cluster = Cluster(options.num_cores, options.mos, options.multicast_weights)
    groups, residency = plan_batches(
        prepared.steps,
        prepared.reads,
        cluster,
        options.ols,
        limits_of(options, device),
        _depth_first(options),
    )
    streamed = with_streaming(groups, residency)
    lowered = lower(streamed, residency, prepared.reads, cluster)
    return Program(
        model_name=prepared.name,
        model_sha256=model_sha256,
        compiler_version=compiler_version(),
        sku=device.sku,
        options=options,
        chosen=_chosen(options, residency),
        inputs=prepared.inputs,
        outputs=prepared.outputs,
        memory=_memory(prepared, residency, lowered, device),
        layers=lowered.layers,
        tasks=lowered.tasks,
        tiles=lowered.tiles,
        input_transfers=_transfers(options.combine_inputs, len(prepared.inputs)),
        output_transfers=_transfers(options.combine_outputs, len(prepared.outputs)),
    )


def _binding(graph: Graph, name: str) -> Binding:
    type_ = graph.types[name]
    return Binding(name, type_.dtype, type_.shape, type_.size_bytes)


def _memory(
    prepared: Prepared, residency: Residency, lowered: Lowered, device: DeviceSpec
) -> MemoryUse:
    buffers = sum(binding.size_bytes for binding in (*prepared.inputs, *prepared.outputs))
    per_instance = lowered.spill_bytes + 2 * buffers
    needed = prepared.constants_bytes + per_instance
    if needed > device.ddr_bytes:
        raise DoesNotFitError(
            f"needs {needed / 1e9:.1f} GB of DDR for weights and buffers, {device.sku.value} has "
            f"{device.ddr_bytes / 1e9:.1f} GB; lower batch size or use a card with more memory"
        )
    return MemoryUse(prepared.constants_bytes, per_instance, residency.peak_bytes)


def _depth_first(options: CompileOptions) -> DepthFirst:
    """The memory of a chain is that of all cores together."""
    memory = options.depth_first_mem_mib
    wanted = options.depth_first if options.depth_first is not None or memory is None else True
    return DepthFirst(wanted, None if memory is None else memory * MIB // options.num_cores)


def _transfers(combined: bool | None, bindings: int) -> int:
    """Requests that the host makes: one, unless it is told to move each binding by itself."""
    return max(1, bindings) if combined is False else 1


def _chosen(options: CompileOptions, residency: Residency) -> tuple[tuple[str, str], ...]:
    """What the compiler decided where the options left it open."""
    chosen = [("weights", "resident" if residency.weights_resident else "streamed")]
    if options.ols is None:
        chosen.append(("ols", str(DEFAULT_OLS)))
    if options.mos is None:
        chosen.append(("mos", "per layer"))
    return tuple(chosen)
