from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from compiler.errors import ModelError
from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph, Node, TensorType
from compiler.ir.verify import verify
from tests.oracles.graphs import GraphBuilder


def _graph() -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", (2, 3))
    w = builder.weight("w", (3, 4))
    product = builder.op("MatMul", (x, w), (2, 4))
    result = builder.op("Clip", (product, "", ""), (2, 4))
    return Graph(
        name="g",
        inputs=("x",),
        outputs=(result,),
        nodes=tuple(builder.nodes),
        types=MappingProxyType(builder.types),
        constants=MappingProxyType(builder.constants),
        batch_size=2,
    )


def _with_node(graph: Graph, at: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:at], node, *graph.nodes[at + 1 :]))


def test_a_well_formed_graph_passes() -> None:
    verify(_graph())


def test_a_use_before_the_definition_is_found() -> None:
    graph = _graph()
    with pytest.raises(ModelError, match="reads 'matmul_0' before it is made"):
        verify(replace(graph, nodes=tuple(reversed(graph.nodes))))


def test_a_second_definition_is_found() -> None:
    graph = _graph()
    with pytest.raises(ModelError, match="'matmul_0' is defined 2 times"):
        verify(replace(graph, nodes=(graph.nodes[0], *graph.nodes)))
    with pytest.raises(ModelError, match="'x' is defined 2 times"):
        verify(_with_node(graph, 1, replace(graph.nodes[1], outputs=("x",))))


def test_an_output_that_nothing_makes_is_found() -> None:
    with pytest.raises(ModelError, match="output 'gone' is made by no node"):
        verify(replace(_graph(), outputs=("gone",)))


def test_a_value_without_a_type_is_found() -> None:
    graph = _graph()
    types = {name: given for name, given in graph.types.items() if name != "matmul_0"}
    with pytest.raises(ModelError, match="'matmul_0' has no type"):
        verify(replace(graph, types=MappingProxyType(types)))


@pytest.mark.parametrize("op", ["Shape", "ConstantOfShape", "Frobnicate"])
def test_an_operator_without_a_device_form_is_found(op: str) -> None:
    graph = _graph()
    with pytest.raises(ModelError, match=f"{op} has no device form"):
        verify(_with_node(graph, 1, replace(graph.nodes[1], op=op)))


def test_a_constant_of_another_type_than_the_graph_says_is_found() -> None:
    graph = _graph()
    types = {**graph.types, "w": TensorType(DType.FLOAT32, (3, 5))}
    with pytest.raises(ModelError, match="constant 'w'"):
        verify(replace(graph, types=MappingProxyType(types)))
