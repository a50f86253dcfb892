"""Whatever the options, a program does the graph's work once and moves each byte that it must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.graph import Graph
from compiler.options import CompileOptions
from compiler.program import Program, TaskKind, Tasks, VectorOp, verify
from compiler.schedule.batches import split_batch
from compiler.schedule.plan import MOST_MEMBERS
from compiler.schedule.reads import Reads
from compiler.schedule.schedule import compile_graph
from compiler.schedule.steps import steps_of
from compiler.target import Sku, device
from tests.oracles.graphs import GraphBuilder, attention, small_cnn

STD = device(Sku.STD)


def compiled(graph: Graph, **knobs: int | bool | None) -> Program:
    options = {"num_cores": 1, "batch_size": graph.batch_size} | knobs
    program = compile_graph(graph, CompileOptions(**options), STD)  # type: ignore[arg-type] # kwargs of a test
    verify(program)
    return program


def of_kind(tasks: Tasks, kind: TaskKind) -> np.ndarray:
    return np.flatnonzero(tasks.kind == kind)


def macs_of(program: Program) -> int:
    tasks = program.tasks
    matmul = of_kind(tasks, TaskKind.MATMUL)
    return int((tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3)[matmul].sum())


def bytes_of(program: Program, kind: TaskKind) -> int:
    return int(program.tasks.w0[of_kind(program.tasks, kind)].sum())


KNOBS = st.fixed_dictionaries(
    {
        "num_cores": st.integers(1, 14),
        "ols": st.one_of(st.none(), st.integers(1, 8)),
        "mos": st.none(),
        "multicast_weights": st.booleans(),
    }
)


@given(knobs=KNOBS, batch=st.integers(1, 9))
def test_every_schedule_of_a_cnn_does_the_same_work(
    knobs: dict[str, int | bool | None], batch: int
) -> None:
    graph = small_cnn(batch, channels=64)
    program = compiled(graph, **knobs)
    rows, channels = batch * 30 * 30, 64
    # One product per Conv and the classifier. The stem's three channels are laid out by four, a
    # kernel row of three taps to a block of 32; the depthwise layer fills a 32-channel block each.
    stem, conv, depthwise = 3 * 32, 9 * channels, 9 * 32
    products = rows * channels * (stem + conv + depthwise) + batch * channels * 10
    assert macs_of(program) == products
    vector = of_kind(program.tasks, TaskKind.VECTOR)
    adds = vector[program.tasks.w1[vector] == VectorOp.ADD]
    assert int(program.tasks.w0[adds].sum()) == rows * channels


@given(knobs=KNOBS, batch=st.integers(1, 5))
def test_the_hosts_buffers_are_read_and_written_once(
    knobs: dict[str, int | bool | None], batch: int
) -> None:
    program = compiled(attention(batch), **knobs)
    tasks = program.tasks
    first = of_kind(tasks, TaskKind.READ)
    of_input = first[tasks.layer[first] == 0]
    assert int(tasks.w0[of_input].sum()) == program.input_bytes == batch * 40 * 192 * 4
    assert bytes_of(program, TaskKind.WRITE) == program.output_bytes


def heavy(batch: int, layers: int = 6) -> Graph:
    """Weights of 8 MB a layer: they never stay in VTCM."""
    builder = GraphBuilder("heavy", batch)
    x = builder.input("x", (batch, 2048))
    for _ in range(layers):
        x = builder.dense(x, 2048)
    return builder.build(x)


@pytest.mark.parametrize("cores", [1, 2, 4, 7])
def test_streamed_weights_are_read_once_an_instance_with_multicast(cores: int) -> None:
    graph = heavy(batch=28)
    program = compiled(graph, num_cores=cores, mos=1, multicast_weights=True)
    weights = 6 * 2048 * 2048 * 2
    assert dict(program.chosen)["weights"] == "streamed"
    assert bytes_of(program, TaskKind.READ) == weights + program.input_bytes
    assert not len(of_kind(program.tasks, TaskKind.SEND))
    assert int((program.tasks.w0 * program.tasks.receivers).sum()) == weights * (cores - 1)


@pytest.mark.parametrize("cores", [2, 4, 7])
def test_streamed_weights_are_read_once_a_core_without_multicast(cores: int) -> None:
    program = compiled(heavy(batch=28), num_cores=cores, mos=1, multicast_weights=False)
    assert bytes_of(program, TaskKind.READ) == 6 * 2048 * 2048 * 2 * cores + program.input_bytes


def test_a_channel_split_divides_the_weights_of_a_core() -> None:
    whole = compiled(heavy(batch=4), num_cores=4, mos=1, multicast_weights=False)
    split = compiled(heavy(batch=4), num_cores=4, mos=4, multicast_weights=False)
    weights = 6 * 2048 * 2048 * 2
    assert bytes_of(whole, TaskKind.READ) - whole.input_bytes == 4 * weights
    assert bytes_of(split, TaskKind.READ) - split.input_bytes == weights
    assert len(of_kind(whole.tasks, TaskKind.BARRIER)) == 0
    assert len(of_kind(split.tasks, TaskKind.BARRIER)) > 0


def test_steps_share_tiles_up_to_a_number_and_all_are_there() -> None:
    builder = GraphBuilder("chain", 1)
    x = builder.input("x", (1, 64))
    for number in range(3 * MOST_MEMBERS):
        x = builder.op(("Relu", "Sigmoid")[number % 2], (x,), (1, 64))
    program = compiled(builder.build(x), num_cores=1)
    operators = [layer.op for layer in program.layers if layer.op in ("Relu", "Sigmoid")]
    assert operators == ["Relu", "Sigmoid"] * (3 * MOST_MEMBERS // 2)


def test_small_weights_stay_resident_and_are_not_read() -> None:
    program = compiled(small_cnn(batch=1), num_cores=2)
    assert dict(program.chosen)["weights"] == "resident"
    assert bytes_of(program, TaskKind.READ) == program.input_bytes


def test_whole_samples_on_each_core_exchange_nothing() -> None:
    even = compiled(small_cnn(batch=4), num_cores=4, mos=1)
    odd = compiled(small_cnn(batch=3), num_cores=4, mos=1)
    assert len(of_kind(even.tasks, TaskKind.SEND)) == 0
    assert len(of_kind(odd.tasks, TaskKind.SEND)) > 0


@given(knobs=KNOBS, batch=st.sampled_from([1, 4, 16, 40]))
def test_no_core_ever_holds_more_than_its_vtcm(
    knobs: dict[str, int | bool | None], batch: int
) -> None:
    graph = small_cnn(batch, size=112, channels=64)
    program = compiled(graph, **knobs)
    assert program.memory.vtcm_peak_bytes <= STD.vtcm_usable_bytes


def test_one_large_sample_is_spilled_and_comes_back() -> None:
    small = compiled(small_cnn(1, size=112, channels=64))
    large = compiled(small_cnn(1, size=448, channels=64))
    assert sum(layer.spill_bytes for layer in small.layers) == 0
    spilled = sum(layer.spill_bytes for layer in large.layers)
    # A tensor of 448 x 448 x 64 in fp16 is 25.7 MB, three times a core's VTCM.
    assert spilled > 2 * 448 * 448 * 64 * 2
    moved = bytes_of(large, TaskKind.READ) + bytes_of(large, TaskKind.WRITE)
    assert moved == spilled + large.input_bytes + large.output_bytes
    assert large.memory.ddr_per_instance_bytes > small.memory.ddr_per_instance_bytes


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_a_large_batch_runs_in_parts_instead_of_spilling(cores: int) -> None:
    program = compiled(small_cnn(20 * cores, size=112, channels=64), num_cores=cores)
    assert sum(layer.spill_bytes for layer in program.layers) == 0
    rows, channels = 20 * cores * 112 * 112, 64
    products = rows * channels * (3 * 32 + 9 * channels + 9 * 32) + 20 * cores * channels * 10
    assert macs_of(program) == products


@given(batch=st.integers(2, 30), samples=st.integers(1, 29), end=st.integers(1, 9))
def test_parts_of_a_batch_add_up(batch: int, samples: int, end: int) -> None:
    graph = small_cnn(batch)
    steps = steps_of(graph, Reads(graph))
    parts = split_batch(steps, end, min(samples, batch - 1))
    for whole in steps:
        own = [part for part in parts if part.name == whole.name]
        assert sum(part.samples for part in own) == batch
        assert sum(part.host_bytes for part in own) == whole.host_bytes
        if whole.matrix is not None:
            assert sum(part.matrix.rows for part in own if part.matrix) == whole.matrix.rows
    made = {part.output.name for part in parts}
    assert {operand.tensor for part in parts for operand in part.operands} <= made
