from __future__ import annotations

import pytest

from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph
from compiler.passes.fold_scales import FoldScales
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = FoldScales()


def conv(sketch: Sketch, *bias: str) -> str:
    weight = sketch.random(4, 3, 3, 3)
    return sketch.node("Conv", sketch.input(2, 3, 6, 5), weight, *bias, shape=(2, 4, 4, 3))


def scores(sketch: Sketch, heads: int = 2, *, queries: str = "", keys: str = "") -> str:
    """Products of attention before the softmax, from one input or given operands."""
    x = sketch.input(1, 6, 8)
    sides = []
    for side, perm, shape in (
        (queries, (0, 2, 1, 3), (1, heads, 6, 8 // heads)),
        (keys, (0, 2, 3, 1), (1, heads, 8 // heads, 6)),
    ):
        y = side or sketch.node(
            "MatMulBias", x, sketch.random(8, 8), sketch.random(8), shape=(1, 6, 8), domain="aic"
        )
        y = sketch.node("View", y, shape=(1, 6, heads, 8 // heads), domain="aic")
        sides.append(sketch.node("Transpose", y, perm=perm, shape=shape))
    return sketch.node("MatMul", *sides, shape=(1, heads, 6, 6))


def scaled(sketch: Sketch, value: str, op: str = "Mul", factor: float = 0.125) -> Graph:
    y = sketch.node(op, value, sketch.constant(factor), shape=sketch.types[value].shape)
    return sketch.graph(sketch.node("Softmax", y, axis=-1))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (4, 1, 1), (1, 4, 1, 1)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_factor_per_channel_joins_a_convolution(shape: tuple[int, ...], biased: bool) -> None:
    sketch = Sketch()
    bias = (sketch.random(4),) if biased else ()
    graph = sketch.graph(sketch.node("Mul", sketch.random(*shape), conv(sketch, *bias)))
    assert ops(checked(PASS, graph).graph) == {"Conv": 1}


def test_factors_in_a_row_join() -> None:
    sketch = Sketch()
    y = sketch.node("Mul", conv(sketch, sketch.random(4)), sketch.random(4, 1, 1))
    y = sketch.node("Mul", y, sketch.random(1))
    graph = sketch.graph(sketch.node("Div", y, sketch.constant(3.0)))
    assert ops(checked(PASS, graph).graph) == {"Conv": 1}


@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_the_scale_of_attention_scores_joins_the_queries(op: str) -> None:
    sketch = Sketch()
    graph = scaled(sketch, scores(sketch), op, 0.125 if op == "Mul" else 8.0)
    result = checked(PASS, graph).graph
    assert ops(graph) - ops(result) == {op: 1}
    weights = [node.inputs[1] for node in result.nodes if node.op == "MatMulBias"]
    assert weights[0] not in graph.constants
    assert weights[1] in graph.constants


def test_it_joins_the_keys_where_the_queries_cannot_take_it() -> None:
    sketch = Sketch()
    graph = scaled(sketch, scores(sketch, queries=sketch.input(1, 6, 8)))
    assert ops(graph) - ops(checked(PASS, graph).graph) == {"Mul": 1}


def test_a_factor_that_neither_operand_can_take_stays() -> None:
    sketch = Sketch()
    queries, keys = sketch.input(1, 6, 8), sketch.input(1, 6, 8)
    unchanged(PASS, scaled(sketch, scores(sketch, queries=queries, keys=keys)))


def test_scores_that_are_returned_keep_their_values() -> None:
    sketch = Sketch()
    value = scores(sketch)
    y = sketch.node("Mul", value, sketch.constant(0.125))
    unchanged(PASS, sketch.graph(y, value))


def test_a_value_that_is_read_elsewhere_on_the_way_blocks() -> None:
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(3, 4), sketch.random(4, 5), shape=(3, 5))
    view = sketch.node("View", y, shape=(5, 3), domain="aic")
    z = sketch.node("Mul", view, sketch.constant(0.5))
    unchanged(PASS, sketch.graph(z, sketch.node("Abs", y)))
    unchanged(PASS, sketch.graph(z, sketch.node("Abs", view)))


def test_the_result_may_be_an_output() -> None:
    sketch = Sketch()
    graph = sketch.graph(sketch.node("Mul", scores(sketch), sketch.constant(0.125)))
    assert ops(checked(PASS, graph).graph)["Mul"] == 0


def test_layers_that_share_weights_share_the_scaled_ones() -> None:
    sketch = Sketch()
    weight, half = sketch.random(4, 4), sketch.constant(0.5)
    x = sketch.input(3, 4)
    for _ in range(3):
        y = sketch.node("MatMul", x, weight, shape=(3, 4))
        x = sketch.node("Relu", sketch.node("Mul", y, half))
    graph = checked(PASS, sketch.graph(x)).graph
    assert ops(graph) == {"MatMul": 3, "Relu": 3}
    assert len(graph.constants) == 1


@pytest.mark.parametrize("factor", [0.0, 1e-6, 1e6])
def test_a_factor_that_would_leave_fp16_stays(factor: float) -> None:
    sketch = Sketch()
    unchanged(PASS, scaled(sketch, conv(sketch), factor=factor))


@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 4, 3), (2, 1, 1, 1), (1, 2, 1, 1, 1)])
def test_a_factor_that_varies_elsewhere_stays(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Mul", conv(sketch), sketch.random(*shape))))


def test_a_factor_that_adds_an_axis_stays() -> None:
    sketch = Sketch()
    y = sketch.node("Mul", conv(sketch), sketch.constant([[[[[0.5]]]]]), shape=(1, 2, 4, 4, 3))
    unchanged(PASS, sketch.graph(sketch.node("Softmax", y, axis=-1)))


def test_weights_that_are_computed_take_no_factor() -> None:
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(3, 4), sketch.input(4, 5), shape=(3, 5))
    unchanged(PASS, sketch.graph(sketch.node("Mul", y, sketch.random(5))))


def test_a_vector_does_not_pass_a_view() -> None:
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(4, 4), sketch.random(4, 4), shape=(4, 4))
    y = sketch.node("View", y, shape=(4, 4), domain="aic")
    unchanged(PASS, sketch.graph(sketch.node("Mul", y, sketch.random(4))))


def twice_transposed(sketch: Sketch) -> str:
    """Channels move from axis 2 to axis 0 and then to axis 1; all extents are equal."""
    y = sketch.node("MatMul", sketch.input(4, 4, 4), sketch.random(4, 4), shape=(4, 4, 4))
    y = sketch.node("Transpose", y, perm=(2, 0, 1), shape=(4, 4, 4))
    return sketch.node("Transpose", y, perm=(1, 0, 2), shape=(4, 4, 4))


def test_a_vector_follows_its_axis_through_transposes() -> None:
    sketch = Sketch()
    y = sketch.node("Mul", twice_transposed(sketch), sketch.random(4, 1))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"MatMul": 1, "Transpose": 2}


@pytest.mark.parametrize("shape", [(4,), (4, 1, 1)])
def test_a_vector_along_another_axis_stays(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    unchanged(
        PASS, sketch.graph(sketch.node("Mul", twice_transposed(sketch), sketch.random(*shape)))
    )


def test_integers_are_left() -> None:
    sketch = Sketch()
    y = sketch.node(
        "MatMul", sketch.input(3, 4, dtype=DType.INT32), sketch.constant([[2]] * 4), shape=(3, 1)
    )
    unchanged(PASS, sketch.graph(sketch.node("Mul", y, sketch.constant(2))))
