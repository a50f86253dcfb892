"""What every pass promises, over blocks of real networks, random graphs, and shipped models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings

from compiler.frontend import bind, load_model
from compiler.ir.graph import Array, Constant, Graph, value_of
from compiler.ir.verify import verify
from compiler.passes import PIPELINE, Pass, PassResult, optimize
from tests.conformance.blocks import BLOCKS
from tests.conformance.random_graphs import graphs
from tests.oracles.graph_to_onnx import compare, with_random_weights

MODELS = Path(__file__).parents[2] / "studies" / "models"
LARGE_ELEMENTS = 1024


@dataclass(frozen=True)
class Everything:
    """The whole pipeline as one pass."""

    name: str = "pipeline"

    def run(self, graph: Graph) -> PassResult:
        result = optimize(graph)
        return PassResult(result, result is not graph)


PASSES: tuple[Pass, ...] = (*dict.fromkeys(PIPELINE), Everything())
every_pass = pytest.mark.parametrize("step", PASSES, ids=lambda step: step.name)


def check_structure(step: Pass, graph: Graph) -> Graph:
    verify(graph)
    result = step.run(graph)
    verify(result.graph)
    assert result.changed == (result.graph is not graph)
    again = step.run(result.graph)
    assert not again.changed
    assert again.graph is result.graph
    check_borders(graph, result.graph)
    return result.graph


def check_borders(before: Graph, after: Graph) -> None:
    assert after.name == before.name
    assert after.batch_size == before.batch_size
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    for name in (*before.inputs, *before.outputs):
        assert after.types[name] == before.types[name]
    names = [node.name for node in after.nodes]
    assert len(set(names)) == len(names)
    used = {name for node in after.nodes for name in (*node.inputs, *node.outputs)}
    assert set(after.types) <= used | set(after.inputs) | set(after.outputs) | set(before.types)


@every_pass
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
def test_a_block_keeps_its_values(block: Callable[[], Graph], step: Pass) -> None:
    before = block()
    error, allowed = compare(before, check_structure(step, before))
    assert error <= allowed


@every_pass
@settings(max_examples=60)
@given(graph=graphs())
def test_a_random_graph_keeps_its_values(step: Pass, graph: Graph) -> None:
    after = check_structure(step, graph)
    error, allowed = compare(graph, after)
    # Each of the steps hands on the rounding of those before it, at most a few times as large.
    assert error <= allowed * 8 * len(graph.nodes)


@given(graph=graphs())
def test_a_pass_that_changes_nothing_says_so(graph: Graph) -> None:
    for step in PASSES:
        result = step.run(graph)
        assert result.changed == (_comparable(result.graph) != _comparable(graph))


def _comparable(graph: Graph) -> tuple[object, ...]:
    return (graph.nodes, dict(graph.types), dict(graph.constants))


@lru_cache(maxsize=1)
def imported(name: str) -> Graph:
    model = load_model(MODELS / f"{name}.onnx")
    symbols = tuple((symbol, 16) for symbol in model.symbols if symbol.startswith("seq"))
    return bind(model, batch_size=1, symbols=symbols)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50", "bert_base_qa"])
def test_a_shipped_model_is_well_formed_after_each_pass(name: str) -> None:
    graph = imported(name)
    for step in PASSES:
        check_structure(step, graph)
    for step in PIPELINE:
        graph = check_structure(step, graph)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50", "bert_base_qa"])
def test_no_pass_loads_weights(name: str) -> None:
    graph = imported(name)
    loaded: list[str] = []

    def watched(name: str, constant: Constant) -> Constant:
        def load() -> Array:
            loaded.append(name)
            return value_of(constant)

        return Constant(constant.type, load)

    constants = {
        name: watched(name, constant) if constant.type.elements > LARGE_ELEMENTS else constant
        for name, constant in graph.constants.items()
    }
    optimize(replace(graph, constants=constants))
    assert not loaded


@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v2",
        pytest.param("resnet50", marks=pytest.mark.slow),
        pytest.param("bert_base_qa", marks=pytest.mark.slow),
    ],
)
def test_a_shipped_model_keeps_its_values(name: str) -> None:
    graph = with_random_weights(imported(name), seed=1)
    error, allowed = compare(graph, optimize(graph))
    assert error <= allowed
