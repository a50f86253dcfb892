"""Any legal schedule gives the graph's values, in whatever legal order its engines take."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ExecutionError
from compiler.execute.graph import run_graph
from compiler.execute.run import execute
from compiler.ir.graph import Array, Constant, Graph
from compiler.options import CompileOptions
from compiler.program import ENGINE_OF, Program, TaskKind
from compiler.schedule.schedule import compile_graph
from compiler.target import Sku, device
from tests.conformance.blocks import BLOCKS
from tests.conformance.random_graphs import graphs
from tests.oracles.graphs import attention, funnel, small_cnn

STD = device(Sku.STD)

# Products add up in another order when their tiles differ; the sums are rounded to fp16 (2^-11)
# again and again on their way through a dozen layers.
FP16_STEPS = 8 * 2.0**-11


def legal_orders(program: Program, seed: int) -> Iterator[int]:
    """Tasks in a random order that dependencies, engines and pipeline stages allow."""
    tasks, choose = program.tasks, random.Random(seed)
    borders = np.cumsum(program.stage_cores or (program.options.num_cores,))
    stage = np.searchsorted(borders, tasks.core, side="right")
    for number in range(len(borders)):
        queues: dict[tuple[int, int], list[int]] = {}
        for task in np.flatnonzero(stage == number)[::-1].tolist():
            engine = int(ENGINE_OF[TaskKind(int(tasks.kind[task]))])
            queues.setdefault((int(tasks.core[task]), engine), []).append(task)
        yield from _interleaved(program, list(queues.values()), choose)


def _interleaved(
    program: Program, queues: list[list[int]], choose: random.Random
) -> Iterator[int]:
    """Engines run as far as they can, one after the other: dependencies must hold them back."""
    done: set[int] = set()
    while any(queues):
        choose.shuffle(queues)
        before = len(done)
        for queue in queues:
            while queue and done.issuperset(_waits_for(program, queue[-1])):
                done.add(queue[-1])
                yield queue.pop()
        assert len(done) > before, "no engine can go on"


def _waits_for(program: Program, task: int) -> list[int]:
    start, end = program.tasks.after_start[task : task + 2]
    return [int(other) for other in program.tasks.after[start:end]]


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: _random(rng, graph, name) for name in graph.inputs}


def _random(rng: np.random.Generator, graph: Graph, name: str) -> Array:
    type_ = graph.types[name]
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(np.float32)
    return rng.integers(0, 2, type_.shape).astype(type_.dtype.value)


def with_random_weights(graph: Graph) -> Graph:
    def drawn(constant: Constant, seed: int) -> Constant:
        if not constant.type.dtype.is_float:
            return constant
        shape = constant.type.shape
        values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        values /= np.float32(np.sqrt(max(1, values.size // shape[0])))
        return replace(constant, load=lambda: values)

    constants = {n: drawn(c, seed) for seed, (n, c) in enumerate(graph.constants.items())}
    return replace(graph, constants=constants)


def assert_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        if wanted.dtype.kind != "f":
            assert np.array_equal(found[name], wanted)
            continue
        scale = float(np.abs(wanted).max(initial=0.0)) + 1e-6
        assert np.allclose(found[name], wanted, rtol=0, atol=FP16_STEPS * scale), name


def check(graph: Graph, options: CompileOptions, seed: int) -> None:
    program = compile_graph(graph, options, STD)
    inputs = random_inputs(graph, seed)
    expected = run_graph(graph, inputs)
    assert_close(execute(program, graph, inputs), expected)
    assert_close(execute(program, graph, inputs, legal_orders(program, seed)), expected)


def clusters(cores: int) -> st.SearchStrategy[tuple[int, ...]]:
    if cores < 2:
        return st.just(())
    cut = st.integers(1, cores - 1).map(lambda first: (first, cores - first))
    return st.one_of(st.just(()), st.just(()), cut)


@st.composite
def knobs(draw: st.DrawFn, batch: int) -> CompileOptions:
    cores = draw(st.integers(1, 14))
    sizes = draw(clusters(cores))
    return CompileOptions(
        num_cores=cores,
        batch_size=batch,
        ols=draw(st.one_of(st.none(), st.integers(1, 8))),
        mos=draw(st.one_of(st.none(), st.integers(1, min(sizes or (cores,))))),
        multicast_weights=draw(st.booleans()),
        depth_first=draw(st.sampled_from([None, True, False])),
        size_split_granularity_kib=draw(st.sampled_from([None, 512, 2048])),
        vtcm_working_set_limit_ratio=draw(st.sampled_from([None, 0.02, 0.5])),
        allocator_dealloc_delay=draw(st.sampled_from([None, 0, 3])),
        sdp_cluster_sizes=sizes,
    )


@settings(max_examples=12)
@given(data=st.data(), batch=st.integers(1, 9), size=st.sampled_from([13, 30]))
def test_every_schedule_of_a_cnn_gives_its_values(
    data: st.DataObject, batch: int, size: int
) -> None:
    graph = with_random_weights(small_cnn(batch, size=size, channels=72))
    check(graph, data.draw(knobs(batch)), seed=batch)


@settings(max_examples=12)
@given(data=st.data(), batch=st.integers(1, 5), length=st.sampled_from([7, 40]))
def test_every_schedule_of_attention_gives_its_values(
    data: st.DataObject, batch: int, length: int
) -> None:
    graph = with_random_weights(attention(batch, length=length))
    check(graph, data.draw(knobs(batch)), seed=batch)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
@settings(max_examples=3)
@given(data=st.data())
def test_every_schedule_of_a_real_block_gives_its_values(
    block: Callable[[], Graph], data: st.DataObject
) -> None:
    graph = block()
    check(graph, data.draw(knobs(graph.batch_size)), seed=1)


@settings(max_examples=30)
@given(graph=graphs(), data=st.data())
def test_every_schedule_of_any_graph_gives_its_values(graph: Graph, data: st.DataObject) -> None:
    check(graph, data.draw(knobs(graph.batch_size)), seed=2)


def test_parts_of_parts_of_the_batch_give_its_values() -> None:
    check(with_random_weights(funnel(8)), CompileOptions(num_cores=1, batch_size=8), seed=1)


def test_a_program_that_lacks_a_dependency_is_found_out() -> None:
    graph = with_random_weights(small_cnn(1, channels=72))
    program = compile_graph(graph, CompileOptions(num_cores=4), STD)
    barriers = np.flatnonzero(program.tasks.kind == TaskKind.BARRIER)
    assert len(barriers)
    # Nobody waits for what other cores send any more.
    after = np.where(np.isin(program.tasks.after, barriers), 0, program.tasks.after)
    broken = replace(program, tasks=replace(program.tasks, after=after.astype(np.int32)))
    inputs = random_inputs(graph, 0)
    for seed in range(3):
        with pytest.raises(ExecutionError, match="before it has been made"):
            execute(broken, graph, inputs, legal_orders(broken, seed))


def test_missing_and_misshaped_inputs_are_told() -> None:
    graph = small_cnn(2)
    program = compile_graph(graph, CompileOptions(num_cores=1, batch_size=2), STD)
    with pytest.raises(ExecutionError, match="input image is missing"):
        execute(program, graph, {})
    with pytest.raises(ExecutionError, match=r"\(1, 3, 30, 30\).*\(2, 3, 30, 30\)"):
        execute(program, graph, {"image": np.zeros((1, 3, 30, 30), np.float32)})
