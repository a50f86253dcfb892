from __future__ import annotations

import pytest

from compiler.passes.lower_gathers import LowerGathers
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = LowerGathers()


def gather(indices: int | list[int] | list[list[int]], axis: int) -> tuple[Sketch, str]:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(4, 5, 6))
    index = sketch.constant(indices)
    before, picked = (4, 5, 6), sketch.types[index].shape
    position = axis % 3
    shape = (*before[:position], *picked, *before[position + 1 :])
    return sketch, sketch.node("Gather", x, index, shape=shape, axis=axis)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("index", [0, 2, -1, -4])
def test_one_position_is_cut_out_and_loses_its_axis(index: int, axis: int) -> None:
    sketch, y = gather(index, axis)
    assert ops(checked(PASS, sketch.graph(y)).graph) == {"Relu": 1, "Slice": 1, "View": 1}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[1, 2, 3], [0], [-3, -2], [0, 1, 2, 3]])
def test_a_run_of_positions_is_cut_out(indices: list[int], axis: int) -> None:
    sketch, y = gather(indices, axis)
    assert ops(checked(PASS, sketch.graph(y)).graph) == {"Relu": 1, "Slice": 1}


def test_a_run_in_two_dimensions_is_cut_out_and_viewed() -> None:
    sketch, y = gather([[1, 2], [3, 4]], 1)
    assert ops(checked(PASS, sketch.graph(y)).graph) == {"Relu": 1, "Slice": 1, "View": 1}


@pytest.mark.parametrize("indices", [[2, 1], [0, 2], [1, 1], [-1, 0]])
def test_scattered_positions_stay(indices: list[int]) -> None:
    sketch, y = gather(indices, 1)
    unchanged(PASS, sketch.graph(y))


def test_a_table_and_computed_indices_stay() -> None:
    sketch = Sketch()
    table = sketch.node("Gather", sketch.random(9, 4), sketch.constant([2, 3]), shape=(2, 4))
    computed = sketch.node("Gather", sketch.input(9, 4), sketch.input(2), shape=(2, 4))
    unchanged(PASS, sketch.graph(table, computed))


def test_equal_bounds_are_one_constant() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(4, 5))
    ends = [sketch.node("Gather", x, sketch.constant([i]), shape=(1, 5)) for i in range(3)]
    graph = checked(PASS, sketch.graph(sketch.node("Sum", *ends))).graph
    assert len(graph.constants) == 4
