from __future__ import annotations

import pytest

from compiler.passes.fuse_activations import FuseActivations
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = FuseActivations()


def start(opset: int = 17) -> tuple[Sketch, str]:
    sketch = Sketch(opset)
    return sketch, sketch.node("Neg", sketch.input(3, 50))


def relu6_of_x_plus_3(sketch: Sketch, x: str, *, swapped: bool = False) -> str:
    pair = (x, sketch.constant([3.0]))
    shifted = sketch.node("Add", *(reversed(pair) if swapped else pair))
    if sketch.opset < 11:
        return sketch.node("Clip", shifted, min=0.0, max=6.0)
    low, high = sketch.constant(0.0), sketch.constant(6.0)
    return sketch.node("Clip", shifted, low, high, shape=sketch.types[x].shape)


@pytest.mark.parametrize("swapped", [False, True])
def test_silu(swapped: bool) -> None:
    sketch, x = start()
    pair = (x, sketch.node("Sigmoid", x))
    graph = sketch.graph(sketch.node("Mul", *(reversed(pair) if swapped else pair)))
    assert ops(checked(PASS, graph).graph) == {"Neg": 1, "Silu": 1}


def test_mish() -> None:
    sketch, x = start()
    gate = sketch.node("Tanh", sketch.node("Softplus", x))
    graph = sketch.graph(sketch.node("Mul", x, gate))
    assert ops(checked(PASS, graph).graph) == {"Neg": 1, "Mish": 1}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("opset", [9, 11, 17])
@pytest.mark.parametrize("sixth", ["div", "mul", "lum"])
@pytest.mark.parametrize("order", ["product first", "sixth first", "gate alone"])
def test_hard_swish_and_hard_sigmoid(order: str, sixth: str, opset: int, swapped: bool) -> None:
    sketch, x = start(opset)
    gate = relu6_of_x_plus_3(sketch, x, swapped=swapped)

    def a_sixth(value: str) -> str:
        if sixth == "div":
            return sketch.node("Div", value, sketch.constant(6.0))
        pair = (value, sketch.constant(1.0 / 6.0))
        return sketch.node("Mul", *(pair if sixth == "mul" else reversed(pair)))

    def product(gate: str) -> str:
        return sketch.node("Mul", *((gate, x) if swapped else (x, gate)))

    forms = {
        "product first": lambda: a_sixth(product(gate)),
        "sixth first": lambda: product(a_sixth(gate)),
        "gate alone": lambda: a_sixth(gate),
    }
    graph = checked(PASS, sketch.graph(forms[order]())).graph
    wanted = "HardSigmoid" if order == "gate alone" else "HardSwish"
    assert ops(graph) == {"Neg": 1, wanted: 1}


def test_hard_swish_by_hard_sigmoid() -> None:
    sketch, x = start()
    gate = sketch.node("HardSigmoid", x, alpha=0.1666667, beta=0.5)
    graph = sketch.graph(sketch.node("Mul", gate, x))
    assert ops(checked(PASS, graph).graph) == {"Neg": 1, "HardSwish": 1}


def test_a_hard_sigmoid_of_another_slope_is_left() -> None:
    sketch, x = start()
    unchanged(PASS, sketch.graph(sketch.node("Mul", x, sketch.node("HardSigmoid", x))))


@pytest.mark.parametrize(
    ("op", "attributes"), [("Sigmoid", {}), ("HardSigmoid", {"alpha": 1 / 6}), ("Tanh", {})]
)
def test_a_gate_of_another_value_is_left(op: str, attributes: dict[str, float]) -> None:
    sketch, x = start()
    gate = sketch.node(op, sketch.node("Abs", x), attributes=attributes)
    unchanged(PASS, sketch.graph(sketch.node("Mul", x, gate)))


def test_a_gate_that_is_read_elsewhere_is_left() -> None:
    sketch, x = start()
    gate = sketch.node("Sigmoid", x)
    unchanged(PASS, sketch.graph(sketch.node("Mul", x, gate), gate))
    unchanged(PASS, sketch.graph(sketch.node("Mul", x, gate), sketch.node("Abs", gate)))


@pytest.mark.parametrize(
    ("shift", "low", "high", "divisor"),
    [(2.0, 0.0, 6.0, 6.0), (3.0, -1.0, 6.0, 6.0), (3.0, 0.0, 5.0, 6.0), (3.0, 0.0, 6.0, 5.0)],
)
def test_other_numbers_are_left(shift: float, low: float, high: float, divisor: float) -> None:
    sketch, x = start()
    sum_ = sketch.node("Add", x, sketch.constant(shift))
    clip = sketch.node("Clip", sum_, sketch.constant(low), sketch.constant(high))
    product = sketch.node("Mul", x, clip)
    unchanged(PASS, sketch.graph(sketch.node("Div", product, sketch.constant(divisor))))


def test_an_inner_value_that_is_returned_blocks() -> None:
    sketch, x = start()
    clip = relu6_of_x_plus_3(sketch, x)
    product = sketch.node("Mul", x, clip)
    y = sketch.node("Div", product, sketch.constant(6.0))
    for inner in (clip, product, sketch.nodes[1].outputs[0]):
        unchanged(PASS, sketch.graph(y, inner))
