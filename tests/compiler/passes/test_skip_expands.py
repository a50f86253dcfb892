from __future__ import annotations

import pytest

from compiler.ir.dtypes import DType
from compiler.passes.skip_expands import SkipExpands
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = SkipExpands()


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max"])
@pytest.mark.parametrize("left", [False, True])
def test_an_operator_that_broadcasts_reads_the_source(op: str, left: bool) -> None:
    sketch = Sketch()
    x = sketch.input(2, 3, 4)
    wide = sketch.node("Expand", sketch.input(3, 1), sketch.constant([2, 3, 4]), shape=(2, 3, 4))
    graph = sketch.graph(sketch.node(op, *((wide, x) if left else (x, wide))))
    assert ops(checked(PASS, graph).graph) == {op: 1}


def test_one_reader_shares_one_expand_with_another() -> None:
    sketch = Sketch()
    x, other = sketch.input(2, 3), sketch.input(4, 1, 3)
    wide = sketch.node("Expand", x, sketch.constant([4, 2, 3]), shape=(4, 2, 3))
    kept = sketch.node("Softmax", wide, axis=-1)
    graph = checked(PASS, sketch.graph(sketch.node("Add", wide, other), kept)).graph
    assert ops(graph) == {"Expand": 1, "Softmax": 1, "Add": 1}
    assert graph.nodes[-1].inputs == (x, other)


def test_where_reads_the_sources_of_all_its_operands() -> None:
    sketch = Sketch()
    mask = sketch.node("Cast", sketch.input(1, 4), dtype=DType.BOOL)
    wide = sketch.node("Expand", mask, sketch.constant([3, 4]), shape=(3, 4))
    low = sketch.node("Expand", sketch.input(1), sketch.constant([3, 4]), shape=(3, 4))
    y = sketch.node("Where", wide, low, sketch.input(3, 4), dtype=DType.FLOAT32)
    assert ops(checked(PASS, sketch.graph(y)).graph) == {"Cast": 1, "Where": 1}


def test_an_expand_that_makes_the_shape_stays() -> None:
    sketch = Sketch()
    wide = sketch.node("Expand", sketch.input(3, 1), sketch.constant([3, 4]), shape=(3, 4))
    unchanged(PASS, sketch.graph(sketch.node("Add", wide, sketch.constant(1.0))))
    unchanged(PASS, sketch.graph(sketch.node("Add", wide, sketch.input(3, 1))))


def test_of_two_expands_that_make_the_shape_together_one_stays() -> None:
    sketch = Sketch()
    first = sketch.node("Expand", sketch.input(3, 1), sketch.constant([3, 4]), shape=(3, 4))
    second = sketch.node("Expand", sketch.input(3, 1), sketch.constant([3, 4]), shape=(3, 4))
    graph = checked(PASS, sketch.graph(sketch.node("Add", first, second))).graph
    assert ops(graph) == {"Expand": 1, "Add": 1}


def test_an_operator_that_does_not_broadcast_keeps_it() -> None:
    sketch = Sketch()
    wide = sketch.node("Expand", sketch.input(3, 1), sketch.constant([3, 4]), shape=(3, 4))
    unchanged(PASS, sketch.graph(sketch.node("Concat", wide, sketch.input(3, 4), shape=(6, 4))))
