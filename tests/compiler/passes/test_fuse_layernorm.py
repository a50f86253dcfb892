from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from compiler.ir.graph import Graph
from compiler.passes.fuse_layernorm import FuseLayerNorm
from tests.compiler.passes.sketch import Sketch, checked, only, ops, unchanged

PASS = FuseLayerNorm()
SQUARES = ("pow", "mul")
INVERSES = ("div", "reciprocal", "one_over", "minus_half", "power_root")
EPSILON = 1e-3


@dataclass(frozen=True)
class Spelling:
    """How an exporter wrote the normalisation."""

    square: str = "pow"
    inverse: str = "div"
    swapped: bool = False
    opset: int = 17


def mean(sketch: Sketch, x: str, axes: tuple[int, ...], keepdims: int = 1) -> str:
    shape = list(sketch.types[x].shape)
    for axis in axes:
        shape[axis] = 1
    kept = tuple(shape) if keepdims else sketch.types[x].shape[: -len(axes)]
    if sketch.opset < 18:
        return sketch.node("ReduceMean", x, shape=kept, axes=axes, keepdims=keepdims)
    return sketch.node("ReduceMean", x, sketch.constant(list(axes)), shape=kept, keepdims=keepdims)


def mul(sketch: Sketch, how: Spelling, left: str, right: str) -> str:
    return sketch.node("Mul", *((right, left) if how.swapped else (left, right)))


def over_root_mean_square(
    sketch: Sketch, how: Spelling, x: str, axes: tuple[int, ...] = (-1,)
) -> str:
    squared = (
        sketch.node("Mul", x, x)
        if how.square == "mul"
        else sketch.node("Pow", x, sketch.constant(2.0))
    )
    pair = (mean(sketch, squared, axes), sketch.constant(EPSILON))
    variance = sketch.node("Add", *(reversed(pair) if how.swapped else pair))
    if how.inverse == "minus_half":
        power = sketch.node("Pow", variance, sketch.constant(-0.5))
        return mul(sketch, how, x, power)
    if how.inverse == "power_root":
        root = sketch.node("Pow", variance, sketch.constant(0.5))
    else:
        root = sketch.node("Sqrt", variance)
    if how.inverse == "reciprocal":
        return mul(sketch, how, x, sketch.node("Reciprocal", root))
    if how.inverse == "one_over":
        return mul(sketch, how, x, sketch.node("Div", sketch.constant(1.0), root))
    return sketch.node("Div", x, root)


def centred(sketch: Sketch, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    return sketch.node("Sub", x, mean(sketch, x, axes))


def start(opset: int = 17) -> tuple[Sketch, str]:
    sketch = Sketch(opset=opset)
    return sketch, sketch.node("Relu", sketch.input(3, 5, 7))


def layer_norm(how: Spelling) -> Graph:
    sketch, x = start(how.opset)
    y = over_root_mean_square(sketch, how, centred(sketch, x))
    y = mul(sketch, how, y, sketch.random(7))
    pair = (y, sketch.random(7))
    return sketch.graph(sketch.node("Add", *(reversed(pair) if how.swapped else pair)))


SPELLINGS = [Spelling(*parts) for parts in product(SQUARES, INVERSES, (False, True), (11, 17, 18))]


@pytest.mark.parametrize("how", SPELLINGS, ids=str)
def test_every_spelling_becomes_one_layer_normalization(how: Spelling) -> None:
    graph = checked(PASS, layer_norm(how)).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1}
    node = only(graph, "LayerNormalization")
    assert node.int("axis", 0) == -1
    assert node.float("epsilon", 0.0) == pytest.approx(EPSILON)
    assert node.opset >= 17
    assert len(graph.constants) == 2


@pytest.mark.parametrize("how", SPELLINGS, ids=str)
def test_every_spelling_without_a_mean_becomes_one_rms_normalization(how: Spelling) -> None:
    sketch, x = start(how.opset)
    y = mul(sketch, how, over_root_mean_square(sketch, how, x), sketch.random(7))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Relu": 1, "RMSNormalization": 1}


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 1, 7), (1,), ()])
def test_gamma_and_beta_may_have_unit_axes(shape: tuple[int, ...]) -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    y = sketch.node("Add", sketch.node("Mul", y, sketch.random(*shape)), sketch.random(*shape))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1}
    inputs = only(graph, "LayerNormalization").inputs
    assert all(graph.types[name].shape == (7,) for name in inputs[1:])


@pytest.mark.parametrize("axes", [(-2, -1), (2, 1), (1, 2)])
def test_several_last_axes(axes: tuple[int, ...]) -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x, axes), axes)
    y = sketch.node("Mul", y, sketch.random(5, 7))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1}
    assert only(graph, "LayerNormalization").int("axis", 0) == -2


def test_without_gamma_the_scale_is_one() -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    graph = checked(PASS, sketch.graph(sketch.node("Abs", y))).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1, "Abs": 1}


def test_gamma_that_is_computed_stays_outside() -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    y = sketch.node("Mul", y, sketch.node("Relu", sketch.input(7)))
    graph = checked(PASS, sketch.graph(sketch.node("Add", y, sketch.random(7)))).graph
    assert ops(graph) == {"Relu": 2, "LayerNormalization": 1, "Mul": 1, "Add": 1}


def test_gamma_of_another_axis_stays_outside() -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    graph = checked(PASS, sketch.graph(sketch.node("Mul", y, sketch.random(5, 1)))).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1, "Mul": 1}


def test_gamma_behind_a_second_reader_stays_outside() -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    graph = checked(PASS, sketch.graph(y, sketch.node("Mul", y, sketch.random(7)))).graph
    assert ops(graph) == {"Relu": 1, "LayerNormalization": 1, "Mul": 1}


@pytest.mark.parametrize("axes", [(1,), (0, 2), (0,)])
def test_axes_that_are_not_the_last_are_left(axes: tuple[int, ...]) -> None:
    sketch, x = start()
    unchanged(
        PASS,
        sketch.graph(over_root_mean_square(sketch, Spelling(), centred(sketch, x, axes), axes)),
    )


def test_a_mean_over_other_axes_is_no_centre() -> None:
    """What remains is the root mean square of the difference, which is right by itself."""
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x, (1,)))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Relu": 1, "ReduceMean": 1, "Sub": 1, "RMSNormalization": 1}


def test_a_difference_that_is_read_elsewhere_is_computed_once() -> None:
    sketch, x = start()
    difference = centred(sketch, x)
    y = over_root_mean_square(sketch, Spelling(), difference)
    graph = checked(PASS, sketch.graph(y, sketch.node("Abs", difference))).graph
    assert ops(graph)["LayerNormalization"] == 0
    assert ops(graph)["Sub"] == ops(graph)["RMSNormalization"] == 1


@pytest.mark.parametrize("op", ["Pow", "ReduceMean", "Add", "Sqrt"])
def test_an_inner_value_that_is_read_elsewhere_blocks(op: str) -> None:
    sketch, x = start()
    y = over_root_mean_square(sketch, Spelling(), centred(sketch, x))
    inner = [node.outputs[0] for node in sketch.nodes if node.op == op][-1]
    unchanged(PASS, sketch.graph(y, inner))
    unchanged(PASS, sketch.graph(y, sketch.node("Abs", inner)))


def test_another_power_is_no_square() -> None:
    sketch, x = start()
    cube = sketch.node("Pow", x, sketch.constant(3.0))
    variance = sketch.node("Add", mean(sketch, cube, (-1,)), sketch.constant(EPSILON))
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.node("Sqrt", variance))))


def test_the_root_of_another_value_is_left() -> None:
    sketch, x = start()
    other = sketch.node("Abs", x)
    cube = sketch.node("Pow", other, sketch.constant(2.0))
    variance = sketch.node("Add", mean(sketch, cube, (-1,)), sketch.constant(EPSILON))
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.node("Sqrt", variance))))


def test_a_mean_without_kept_axes_is_left() -> None:
    """Of a square matrix, dropped axes still broadcast, but along the wrong axis."""
    sketch = Sketch()
    x = sketch.node("Relu", sketch.input(4, 4))
    square = sketch.node("Mul", x, x)
    variance = sketch.node(
        "Add", mean(sketch, square, (-1,), keepdims=0), sketch.constant(EPSILON)
    )
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.node("Sqrt", variance))))


def test_epsilon_that_adds_an_axis_is_left() -> None:
    sketch, x = start()
    square = sketch.node("Mul", x, x)
    variance = sketch.node("Add", mean(sketch, square, (-1,)), sketch.constant([[[[0.1]]]]))
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.node("Sqrt", variance))))


def test_epsilon_that_varies_is_left() -> None:
    sketch, x = start()
    square = sketch.node("Mul", x, x)
    variance = sketch.node("Add", mean(sketch, square, (-1,)), sketch.random(5, 1, low=0.1))
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.node("Sqrt", variance))))
