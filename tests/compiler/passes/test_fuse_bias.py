from __future__ import annotations

import pytest

from compiler.ir.graph import value_of
from compiler.passes.fuse_bias import FuseBias
from tests.compiler.passes.sketch import Sketch, checked, only, ops, unchanged

PASS = FuseBias()


def conv(sketch: Sketch, *bias: str) -> str:
    return sketch.node(
        "Conv", sketch.input(2, 3, 6, 5), sketch.random(4, 3, 3, 3), *bias, shape=(2, 4, 4, 3)
    )


def conv_transpose(sketch: Sketch, *bias: str) -> str:
    weight = sketch.random(4, 3, 2, 2)
    return sketch.node(
        "ConvTranspose", sketch.input(2, 4, 5, 3), weight, *bias, shape=(2, 6, 6, 4), group=2
    )


def gemm(sketch: Sketch, *bias: str, **attributes: float) -> str:
    return sketch.node(
        "Gemm", sketch.input(3, 5), sketch.random(5, 4), *bias, shape=(3, 4), attributes=attributes
    )


def matmul(sketch: Sketch, *batch: int) -> str:
    return sketch.node(
        "MatMul", sketch.input(*batch, 3, 5), sketch.random(5, 4), shape=(*batch, 3, 4)
    )


def test_a_bias_per_channel_joins_a_convolution() -> None:
    for shape in ((4, 1, 1), (1, 4, 1, 1), (1, 1, 1), (1,), ()):
        sketch = Sketch()
        graph = sketch.graph(sketch.node("Add", sketch.random(*shape), conv(sketch)))
        graph = checked(PASS, graph).graph
        assert ops(graph) == {"Conv": 1}
        assert graph.types[only(graph, "Conv").inputs[2]].shape == (4,)


@pytest.mark.parametrize("shape", [(5,), (1, 3), (1, 4, 1, 3), (4, 4, 1), (4, 4, 3)])
def test_a_constant_that_varies_elsewhere_stays_behind_a_convolution(
    shape: tuple[int, ...],
) -> None:
    sketch = Sketch()
    x = sketch.input(2, 3, 6, 7)
    y = sketch.node("Conv", x, sketch.random(4, 3, 3, 3), shape=(2, 4, 4, 5))
    shape = tuple(5 if extent == 3 else extent for extent in shape)
    unchanged(PASS, sketch.graph(sketch.node("Add", y, sketch.random(*shape))))


def test_a_constant_that_adds_an_axis_stays() -> None:
    sketch = Sketch()
    y = sketch.node("Add", matmul(sketch), sketch.random(2, 1, 4))
    unchanged(PASS, sketch.graph(y))


def test_a_constant_that_repeats_a_single_channel_stays() -> None:
    sketch = Sketch()
    y = sketch.node(
        "Conv", sketch.input(1, 2, 4, 4), sketch.random(1, 2, 1, 1), shape=(1, 1, 4, 4)
    )
    wide = sketch.node("Add", y, sketch.random(3, 1, 1), shape=(1, 3, 4, 4))
    unchanged(PASS, sketch.graph(wide))


def test_a_transposed_convolution_counts_channels_over_groups() -> None:
    sketch = Sketch()
    y = sketch.node("Add", conv_transpose(sketch, sketch.random(6)), sketch.random(6, 1, 1))
    assert ops(checked(PASS, sketch.graph(y)).graph) == {"ConvTranspose": 1}


def test_a_bias_adds_to_the_bias_that_is_there() -> None:
    sketch = Sketch()
    y = sketch.node("Add", conv(sketch, sketch.random(4)), sketch.random(4, 1, 1))
    graph = checked(PASS, sketch.graph(sketch.node("Sub", y, sketch.random(4, 1, 1)))).graph
    assert ops(graph) == {"Conv": 1}


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1,), ()])
def test_gemm_scales_its_old_bias_only(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    y = sketch.node(
        "Add", gemm(sketch, sketch.random(*shape), alpha=0.5, beta=3.0), sketch.random(4)
    )
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Gemm": 1}


def test_gemm_whose_bias_varies_over_rows_is_left() -> None:
    sketch = Sketch()
    unchanged(
        PASS, sketch.graph(sketch.node("Add", gemm(sketch, sketch.random(3, 1)), sketch.random(4)))
    )


def test_matmul_of_matrices_becomes_gemm() -> None:
    sketch = Sketch()
    graph = sketch.graph(sketch.node("Add", sketch.random(4), matmul(sketch)))
    assert ops(checked(PASS, graph).graph) == {"Gemm": 1}


def test_matmul_of_a_stack_becomes_matmul_bias() -> None:
    sketch = Sketch()
    y = sketch.node("Add", matmul(sketch, 2), sketch.random(1, 1, 4))
    graph = checked(PASS, sketch.graph(sketch.node("Add", y, sketch.random(4)))).graph
    assert ops(graph) == {"MatMulBias": 1}
    assert only(graph, "MatMulBias").domain == "aic"


@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (2, 1, 1)])
def test_a_constant_over_the_rows_stays_behind_matmul(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Add", matmul(sketch, 2), sketch.random(*shape))))


def test_a_product_of_activations_takes_no_bias() -> None:
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(2, 3, 5), sketch.input(2, 5, 4), shape=(2, 3, 4))
    unchanged(PASS, sketch.graph(sketch.node("Add", y, sketch.random(4))))


def test_a_product_with_a_vector_is_left() -> None:
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(3, 5), sketch.random(5), shape=(3,))
    unchanged(PASS, sketch.graph(sketch.node("Add", y, sketch.random(3))))


def test_a_bias_that_is_computed_stays() -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Add", matmul(sketch), sketch.input(4))))


def test_a_convolution_whose_bias_is_computed_is_left() -> None:
    sketch = Sketch()
    y = conv(sketch, sketch.input(4))
    unchanged(PASS, sketch.graph(sketch.node("Add", y, sketch.random(4, 1, 1))))


def test_a_result_that_is_read_elsewhere_is_left() -> None:
    sketch = Sketch()
    y = matmul(sketch)
    z = sketch.node("Add", y, sketch.random(4))
    unchanged(PASS, sketch.graph(z, y))
    unchanged(PASS, sketch.graph(z, sketch.node("Abs", y)))


def test_a_constant_less_the_product_is_left() -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(sketch.node("Sub", sketch.random(4), matmul(sketch))))


def test_one_scalar_serves_layers_of_different_width() -> None:
    sketch = Sketch()
    one = sketch.constant(0.25)
    narrow = sketch.node("Add", matmul(sketch), one)
    wide = sketch.node("MatMul", narrow, sketch.random(4, 9), shape=(3, 9))
    graph = checked(PASS, sketch.graph(sketch.node("Add", wide, one))).graph
    biases = [graph.constants[node.inputs[2]] for node in graph.nodes]
    assert [value_of(bias).tolist() for bias in biases] == [[0.25] * 4, [0.25] * 9]
