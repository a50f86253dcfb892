from __future__ import annotations

import numpy as np
import pytest

from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph
from compiler.passes.remove_identities import RemoveIdentities
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = RemoveIdentities()


def between(op: str, *extra: object, **attributes: int | float | tuple[int, ...]) -> Graph:
    """Relu, the operator with its output in its input's shape, Abs."""
    sketch = Sketch(opset=13)
    x = sketch.node("Relu", sketch.input(2, 3, 4, 4))
    constants = [sketch.constant(value) for value in extra]
    y = sketch.node(op, x, *constants, shape=(2, 3, 4, 4), attributes=attributes)
    return sketch.graph(sketch.node("Abs", y))


FULL = [2**31 - 1] * 2
NO_OPS = [
    between("Identity"),
    between("Dropout"),
    between("Dropout", 0.5, np.False_),
    between("Reshape", [2, 3, 4, 4]),
    between("Expand", [1, 3, 1, 4]),
    between("Tile", [1, 1, 1, 1]),
    between("Concat", axis=1),
    between("Sum"),
    between("Transpose", perm=(0, 1, 2, 3)),
    between("Pad", [0] * 8),
    between("Slice", [0, 0], FULL, [2, 3], [1, 1]),
    between("Slice", [0, 0], FULL, [2, 3]),
    between("AveragePool", kernel_shape=(1, 1), strides=(1, 1)),
    between("MaxPool", kernel_shape=(1, 1)),
    between("Add", 0.0),
    between("Add", [[[0.0]]]),
    between("Sub", 0.0),
    between("Mul", 1.0),
    between("Div", 1.0),
    between("Pow", 1.0),
]


@pytest.mark.parametrize("graph", NO_OPS, ids=lambda g: g.nodes[1].op)
def test_a_no_op_goes(graph: Graph) -> None:
    assert ops(checked(PASS, graph).graph) == {"Relu": 1, "Abs": 1}


NOT_NO_OPS = [
    between("Transpose", perm=(0, 1, 3, 2)),
    between("Pad", [0, 0, 1, 0, 0, 0, -1, 0]),
    between("Slice", [-1], [-(2**31)], [3], [-1]),
    between("AveragePool", kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
    between("Add", 1e-3),
    between("Mul", 1.001),
    between("Mul", [[[1.0]], [[1.0]], [[2.0]]]),
    between("Pow", 2.0),
]


@pytest.mark.parametrize("graph", NOT_NO_OPS, ids=lambda g: g.nodes[1].op)
def test_what_keeps_the_shape_but_not_the_values_stays(graph: Graph) -> None:
    unchanged(PASS, graph)


def test_flatten_of_a_matrix_goes() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(2, 3))
    graph = sketch.graph(sketch.node("Abs", sketch.node("Flatten", x, axis=1)))
    assert ops(checked(PASS, graph).graph) == {"Relu": 1, "Abs": 1}


def test_the_neutral_element_must_stand_on_its_side() -> None:
    sketch = Sketch()
    x = sketch.input(2, 3)
    zero, one = sketch.constant(0.0), sketch.constant(1.0)
    kept = sketch.node("Add", sketch.node("Sub", zero, x), sketch.node("Div", one, x))
    unchanged(PASS, sketch.graph(kept))


def test_a_neutral_element_that_broadcasts_the_value_stays() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(3))
    y = sketch.node("Add", x, sketch.constant([[[0.0]]]), shape=(1, 1, 3))
    unchanged(PASS, sketch.graph(sketch.node("Abs", y)))


@pytest.mark.parametrize("width", [DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16])
def test_a_cast_between_float_widths_goes(width: DType) -> None:
    sketch = Sketch()
    narrow = sketch.node("Cast", sketch.input(2, 3), dtype=width, to=10)
    wide = sketch.node("Cast", sketch.node("Relu", narrow), dtype=DType.FLOAT32, to=1)
    graph = checked(PASS, sketch.graph(wide)).graph
    assert ops(graph) == {"Relu": 1}
    assert graph.types[graph.outputs[0]].dtype is DType.FLOAT32


@pytest.mark.parametrize(
    ("before", "after"), [(DType.FLOAT32, DType.INT64), (DType.INT64, DType.INT32)]
)
def test_a_cast_that_may_change_values_stays(before: DType, after: DType) -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Cast", sketch.input(4, dtype=before), dtype=after)))


def test_a_dropout_whose_mask_is_read_stays() -> None:
    sketch = Sketch()
    y = sketch.node("Dropout", sketch.input(3), outputs=2)
    unchanged(PASS, sketch.graph(y, f"{y}.1"))


def test_indices_of_a_pool_keep_it() -> None:
    sketch = Sketch()
    y = sketch.node("MaxPool", sketch.input(1, 1, 3, 3), outputs=2, kernel_shape=(1, 1))
    unchanged(PASS, sketch.graph(y, f"{y}.1"))


def test_an_output_keeps_its_name() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(3))
    other = sketch.node("Abs", x)
    y = sketch.node("Identity", x)
    graph = checked(PASS, sketch.graph(y, other)).graph
    assert ops(graph) == {"Relu": 1, "Abs": 1}
    assert graph.nodes[1].inputs == (y,)


def test_an_input_that_is_an_output_needs_its_copy() -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Identity", sketch.input(3))))


def test_one_value_that_is_returned_twice_needs_its_copy() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(3))
    first, second = sketch.node("Identity", x), sketch.node("Identity", x)
    graph = checked(PASS, sketch.graph(first, second)).graph
    assert ops(graph) == {"Relu": 1, "Identity": 1}


def test_a_chain_of_no_ops_goes_in_one_run() -> None:
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(3))
    for _ in range(5):
        x = sketch.node("Identity", x)
    assert ops(checked(PASS, sketch.graph(sketch.node("Abs", x))).graph) == {"Relu": 1, "Abs": 1}
