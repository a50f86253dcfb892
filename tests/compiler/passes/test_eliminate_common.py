from __future__ import annotations

import numpy as np

from compiler.passes.eliminate_common import EliminateCommon
from tests.compiler.passes.sketch import Sketch, checked, only, ops, unchanged

PASS = EliminateCommon()


def test_equal_chains_are_computed_once() -> None:
    sketch = Sketch()
    x = sketch.input(2, 3)
    ends = []
    for _ in range(3):
        y = sketch.node("Mul", x, sketch.constant(0.5))
        ends.append(sketch.node("Softmax", y, axis=1))
    total = sketch.node("Sum", *ends)
    graph = checked(PASS, sketch.graph(total)).graph
    assert ops(graph) == {"Mul": 1, "Softmax": 1, "Sum": 1}
    assert len(graph.constants) == 1


def test_what_differs_in_anything_stays() -> None:
    sketch = Sketch()
    x, other = sketch.input(3, 3), sketch.input(3, 3)
    ends = [
        sketch.node("Softmax", x, axis=0),
        sketch.node("Softmax", x, axis=1),
        sketch.node("Softmax", other, axis=1),
        sketch.node("LogSoftmax", x, axis=1),
        sketch.node("Mul", x, sketch.constant(0.5)),
        sketch.node("Mul", x, sketch.constant(0.25)),
        sketch.node("Sub", x, other),
        sketch.node("Sub", other, x),
        sketch.node("Add", x, sketch.random(3, 3)),
        sketch.node("Add", x, sketch.random(3, 3)),
    ]
    unchanged(PASS, sketch.graph(sketch.node("Sum", *ends)))


def test_constants_of_equal_bytes_but_other_type_differ() -> None:
    sketch = Sketch()
    x = sketch.input(2)
    one = sketch.node("Pow", x, sketch.constant([1.0]))
    big = sketch.node("Pow", x, sketch.constant([0x3F800000], np.int32))
    deep = sketch.node("Pow", x, sketch.constant([[1.0]]), shape=(1, 2))
    unchanged(PASS, sketch.graph(sketch.node("Sum", one, big, deep)))


def test_views_of_one_value_under_different_shapes_differ() -> None:
    sketch = Sketch()
    x = sketch.input(2, 6)
    ends = [
        sketch.node("View", x, shape=shape, domain="aic") for shape in ((3, 4), (4, 3), (3, 4))
    ]
    graph = checked(PASS, sketch.graph(*(sketch.node("Softmax", y, axis=1) for y in ends))).graph
    assert ops(graph)["View"] == 2


def test_outputs_keep_their_names() -> None:
    sketch = Sketch()
    x = sketch.input(4)
    first, second = sketch.node("Relu", x), sketch.node("Relu", x)
    third = sketch.node("Abs", first)
    graph = checked(PASS, sketch.graph(second, third)).graph
    assert ops(graph) == {"Relu": 1, "Abs": 1}
    assert only(graph, "Abs").inputs == (second,)


def test_two_outputs_of_equal_value_stay_two_values() -> None:
    sketch = Sketch()
    x = sketch.input(4)
    nodes = [sketch.node("Relu", x) for _ in range(4)]
    graph = checked(PASS, sketch.graph(nodes[1], nodes[2])).graph
    assert ops(graph) == {"Relu": 2}


def test_a_node_reads_what_took_over_a_name_before_it() -> None:
    """The copies are returned in reverse order, so each merge renames the first one again."""
    sketch = Sketch()
    x = sketch.input(4)
    relus = [sketch.node("Relu", x) for _ in range(3)]
    sums = [sketch.node("Add", name, x) for name in relus]
    graph = checked(PASS, sketch.graph(relus[2], sums[0], sums[2])).graph
    assert ops(graph)["Relu"] == 1
    assert ops(graph)["Add"] == 2


def test_nodes_with_several_outputs_merge_output_by_output() -> None:
    sketch = Sketch()
    x = sketch.input(4, 3)
    first = sketch.node("Split", x, sketch.constant([2, 2]), shape=(2, 3), outputs=2, axis=0)
    second = sketch.node("Split", x, sketch.constant([2, 2]), shape=(2, 3), outputs=2, axis=0)
    total = sketch.node("Add", first, f"{second}.1")
    assert ops(checked(PASS, sketch.graph(total)).graph) == {"Split": 1, "Add": 1}
