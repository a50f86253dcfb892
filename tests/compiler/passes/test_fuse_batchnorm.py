from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.ir.graph import Constant, value_of
from compiler.passes.fuse_batchnorm import FuseBatchNorm
from compiler.passes.fuse_bias import FuseBias
from tests.compiler.passes.sketch import Array, Sketch, checked, only, ops, unchanged

PASS = FuseBatchNorm()


def batchnorm(sketch: Sketch, x: str, outputs: int = 1, **attributes: float) -> str:
    channels = sketch.types[x].shape[1]
    gamma, beta, mean = (sketch.random(channels) for _ in range(3))
    variance = sketch.random(channels, low=0.1, high=2.0)
    return sketch.node(
        "BatchNormalization",
        x,
        gamma,
        beta,
        mean,
        variance,
        shape=sketch.types[x].shape,
        outputs=outputs,
        attributes=attributes,
    )


def conv(sketch: Sketch, *bias: str) -> str:
    weight = sketch.random(4, 3, 3, 3)
    return sketch.node(
        "Conv", sketch.input(2, 6, 6, 5), weight, *bias, shape=(2, 4, 4, 3), group=2
    )


def conv_1d(sketch: Sketch) -> str:
    return sketch.node("Conv", sketch.input(2, 3, 9), sketch.random(5, 3, 2), shape=(2, 5, 8))


def conv_3d(sketch: Sketch) -> str:
    weight = sketch.random(2, 3, 2, 1, 2)
    return sketch.node("Conv", sketch.input(1, 3, 4, 3, 5), weight, shape=(1, 2, 3, 3, 4))


def conv_transpose(sketch: Sketch) -> str:
    weight = sketch.random(4, 3, 2, 2)
    x = sketch.input(2, 4, 5, 3)
    return sketch.node("ConvTranspose", x, weight, shape=(2, 6, 6, 4), group=2)


def gemm(sketch: Sketch) -> str:
    x, weight, bias = sketch.input(3, 5), sketch.random(4, 5), sketch.random(4)
    return sketch.node("Gemm", x, weight, bias, shape=(3, 4), transB=1, alpha=0.5, beta=2.0)


def matmul(sketch: Sketch) -> str:
    return sketch.node("MatMul", sketch.input(3, 5), sketch.random(5, 4), shape=(3, 4))


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (conv, "Conv"),
        (conv_1d, "Conv"),
        (conv_3d, "Conv"),
        (conv_transpose, "ConvTranspose"),
        (gemm, "Gemm"),
        (matmul, "Gemm"),
    ],
)
def test_it_folds_into_the_weights_before_it(make: Callable[[Sketch], str], op: str) -> None:
    sketch = Sketch()
    graph = checked(PASS, sketch.graph(batchnorm(sketch, make(sketch), epsilon=0.01))).graph
    assert ops(graph) == {op: 1}


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_it_folds_at_every_opset(opset: int) -> None:
    sketch = Sketch(opset)
    graph = checked(PASS, sketch.graph(batchnorm(sketch, conv(sketch, sketch.random(4))))).graph
    assert ops(graph) == {"Conv": 1}


def test_two_in_a_row_fold() -> None:
    sketch = Sketch()
    graph = sketch.graph(batchnorm(sketch, batchnorm(sketch, conv(sketch))))
    assert ops(checked(PASS, graph).graph) == {"Conv": 1}


def test_nothing_is_loaded_before_it_is_needed() -> None:
    sketch = Sketch()
    graph = sketch.graph(batchnorm(sketch, conv(sketch)))
    loads: list[str] = []

    def counted(name: str, constant: Constant) -> Constant:
        def load() -> Array:
            loads.append(name)
            return value_of(constant)

        return Constant(constant.type, load)

    watched = {name: counted(name, c) for name, c in graph.constants.items()}
    result = PASS.run(replace(graph, constants=watched)).graph
    assert not loads
    assert value_of(result.constants[only(result, "Conv").inputs[1]]).shape == (4, 3, 3, 3)
    assert loads


def test_narrow_weights_stay_narrow() -> None:
    sketch = Sketch()
    x = sketch.input(1, 2, 3, 3)
    weight = sketch.constant(np.ones((2, 2, 1, 1)), np.float16)
    graph = PASS.run(
        sketch.graph(batchnorm(sketch, sketch.node("Conv", x, weight, shape=(1, 2, 3, 3))))
    ).graph
    constant = graph.constants[only(graph, "Conv").inputs[1]]
    assert value_of(constant).dtype == np.float16
    assert constant.type.dtype.value == "float16"


def test_layers_that_share_weights_and_normalisation_share_the_result() -> None:
    sketch = Sketch()
    weight = sketch.random(3, 3, 1, 1)
    parameters = [sketch.random(3, low=0.5) for _ in range(4)]
    x = sketch.input(1, 3, 4, 4)
    for _ in range(3):
        y = sketch.node("Conv", x, weight, shape=(1, 3, 4, 4))
        x = sketch.node("BatchNormalization", y, *parameters, shape=(1, 3, 4, 4))
    graph = checked(PASS, sketch.graph(x)).graph
    assert ops(graph) == {"Conv": 3}
    assert len(graph.constants) == 2


def test_without_weights_before_it_becomes_mul_and_add() -> None:
    for shape in ((2, 4), (2, 4, 3), (2, 4, 3, 3)):
        sketch = Sketch()
        graph = checked(PASS, sketch.graph(batchnorm(sketch, sketch.input(*shape)))).graph
        assert ops(graph) == {"Mul": 1, "Add": 1}
        assert len({node.name for node in graph.nodes}) == 2


def test_behind_a_value_that_is_read_elsewhere_it_becomes_mul_and_add() -> None:
    sketch = Sketch()
    y = conv(sketch)
    graph = checked(PASS, sketch.graph(batchnorm(sketch, y), y)).graph
    assert ops(graph) == {"Conv": 1, "Mul": 1, "Add": 1}


def test_behind_a_stack_of_products_it_becomes_mul_and_add() -> None:
    """The channels of MatMul are its last axis, those of BatchNormalization axis 1."""
    sketch = Sketch()
    y = sketch.node("MatMul", sketch.input(2, 4, 5), sketch.random(5, 4), shape=(2, 4, 4))
    graph = checked(PASS, sketch.graph(batchnorm(sketch, y))).graph
    assert ops(graph) == {"MatMul": 1, "Mul": 1, "Add": 1}


def test_behind_weights_that_are_computed_it_becomes_mul_and_add() -> None:
    sketch = Sketch()
    y = sketch.node("Conv", sketch.input(1, 3, 4, 4), sketch.input(2, 3, 1, 1), shape=(1, 2, 4, 4))
    graph = checked(PASS, sketch.graph(batchnorm(sketch, y))).graph
    assert ops(graph) == {"Conv": 1, "Mul": 1, "Add": 1}


def test_parameters_that_are_computed_leave_it_alone() -> None:
    sketch = Sketch()
    x, gamma = conv(sketch), sketch.input(4)
    rest = [sketch.random(4, low=0.5) for _ in range(3)]
    unchanged(
        PASS, sketch.graph(sketch.node("BatchNormalization", x, gamma, *rest, shape=(2, 4, 4, 3)))
    )


def test_training_leaves_it_alone() -> None:
    sketch = Sketch()
    y = batchnorm(sketch, conv(sketch), outputs=3, training_mode=1)
    unchanged(PASS, sketch.graph(y))


def test_a_bias_between_convolution_and_normalisation_folds_first() -> None:
    sketch = Sketch()
    y = sketch.node("Add", conv(sketch), sketch.random(4, 1, 1))
    graph = FuseBias().run(sketch.graph(batchnorm(sketch, y))).graph
    assert ops(checked(PASS, graph).graph) == {"Conv": 1}
