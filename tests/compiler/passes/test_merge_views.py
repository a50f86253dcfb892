from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from compiler.passes.merge_views import MergeViews
from tests.compiler.passes.sketch import Sketch, checked, only, ops, unchanged

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def test_each_kind_of_view_becomes_one_view() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 3, 1, 5))
    y = sketch.node("Squeeze", x, sketch.constant([2]), shape=(2, 3, 5))
    y = sketch.node("Flatten", y, axis=1, shape=(2, 15))
    y = sketch.node("Unsqueeze", y, sketch.constant([0]), shape=(1, 2, 15))
    y = sketch.node("Reshape", y, sketch.constant([5, 6]), shape=(5, 6))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", y))).graph
    assert ops(graph) == {"Relu": 1, "View": 1, "Abs": 1}
    assert only(graph, "View").inputs == (x,)
    assert not graph.constants


def test_a_view_in_the_middle_stays_for_its_other_reader() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 6))
    middle = sketch.node("Reshape", x, sketch.constant([3, 4]), shape=(3, 4))
    last = sketch.node("Reshape", middle, sketch.constant([12]), shape=(12,))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", middle), last)).graph
    assert ops(graph) == {"Relu": 1, "View": 2, "Abs": 1}
    assert all(node.inputs == (x,) for node in graph.nodes if node.op == "View")


def test_a_view_in_the_middle_stays_for_the_caller() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 6))
    middle = sketch.node("Reshape", x, sketch.constant([3, 4]), shape=(3, 4))
    last = sketch.node("Reshape", middle, sketch.constant([12]), shape=(12,))
    graph = checked(MergeViews(), sketch.graph(last, middle)).graph
    assert ops(graph) == {"Relu": 1, "View": 2}


def test_a_view_there_and_back_goes() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 6))
    middle = sketch.node("Reshape", x, sketch.constant([3, 4]), shape=(3, 4))
    last = sketch.node("Reshape", middle, sketch.constant([2, 6]), shape=(2, 6))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", last))).graph
    assert ops(graph) == {"Relu": 1, "Abs": 1}


def test_a_transpose_of_unit_axes_is_a_view() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(1, 6, 1, 5))
    y = sketch.node("Transpose", x, perm=(0, 2, 1, 3), shape=(1, 1, 6, 5))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", y))).graph
    assert ops(graph) == {"Relu": 1, "View": 1, "Abs": 1}


def test_a_transpose_that_moves_data_stays() -> None:
    sketch = Sketch()
    unchanged(
        MergeViews(), sketch.graph(sketch.node("Transpose", sketch.input(2, 3), shape=(3, 2)))
    )


def test_a_view_from_an_input_to_an_output_stays() -> None:
    sketch = Sketch()
    x = sketch.input(2, 6)
    y = sketch.node("Reshape", x, sketch.constant([2, 6]), shape=(2, 6))
    assert ops(checked(MergeViews(), sketch.graph(y)).graph) == {"View": 1}


def test_two_transposes_make_one() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 3, 4))
    y = sketch.node("Transpose", x, perm=(1, 2, 0), shape=(3, 4, 2))
    z = sketch.node("Transpose", y, shape=(2, 4, 3))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", z))).graph
    assert ops(graph) == {"Relu": 1, "Transpose": 1, "Abs": 1}
    assert only(graph, "Transpose").ints("perm") == (0, 2, 1)


def test_the_first_transpose_stays_for_its_other_reader() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 3))
    y = sketch.node("Transpose", x, shape=(3, 2))
    z = sketch.node("Transpose", y, shape=(2, 3))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", y), sketch.node("Abs", z)))
    assert ops(graph.graph) == {"Relu": 1, "Transpose": 1, "Abs": 2}


@given(SHAPES, st.data())
def test_any_chain_of_transposes_makes_at_most_one(shape: list[int], data: st.DataObject) -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(*shape))
    for _ in range(data.draw(st.integers(1, 4))):
        perm = tuple(data.draw(st.permutations(range(len(shape)))))
        shape = [shape[axis] for axis in perm]
        x = sketch.node("Transpose", x, perm=perm, shape=tuple(shape))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", x))).graph
    assert ops(graph)["Transpose"] <= 1


@given(SHAPES, st.data())
def test_any_chain_of_views_makes_at_most_one(shape: list[int], data: st.DataObject) -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(*shape))
    for _ in range(data.draw(st.integers(1, 4))):
        divisors = [n for n in range(1, prod(shape) + 1) if prod(shape) % n == 0]
        rows = data.draw(st.sampled_from(divisors))
        shape = [rows, prod(shape) // rows]
        x = sketch.node("Reshape", x, sketch.constant(shape), shape=tuple(shape))
    graph = checked(MergeViews(), sketch.graph(sketch.node("Abs", x))).graph
    assert ops(graph)["View"] <= 1
    assert ops(graph)["Reshape"] == 0
