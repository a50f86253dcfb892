from __future__ import annotations

import pytest

from compiler.ir.dtypes import DType
from compiler.passes.reduce_strength import ReduceStrength
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged

PASS = ReduceStrength()


def start() -> tuple[Sketch, str]:
    sketch = Sketch()
    return sketch, sketch.node("Exp", sketch.input(3, 5))


@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (2, 3, 5)])
def test_division_by_a_constant_is_multiplication(shape: tuple[int, ...]) -> None:
    sketch, x = start()
    graph = sketch.graph(sketch.node("Div", x, sketch.random(*shape, low=0.5)))
    assert ops(checked(PASS, graph).graph) == {"Exp": 1, "Mul": 1}


def test_equal_divisors_share_their_inverse() -> None:
    sketch, x = start()
    divisor = sketch.random(5, low=0.5)
    first = sketch.node("Div", x, divisor)
    graph = checked(PASS, sketch.graph(sketch.node("Div", first, divisor))).graph
    assert len(graph.constants) == 1


@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (2.0, {"Mul": 1}),
        (3.0, {"Mul": 2}),
        (4.0, {"Mul": 2}),
        (0.5, {"Sqrt": 1}),
        (-1.0, {"Reciprocal": 1}),
    ],
)
def test_a_small_power_is_cheaper_arithmetic(exponent: float, wanted: dict[str, int]) -> None:
    sketch, x = start()
    graph = sketch.graph(sketch.node("Pow", x, sketch.constant([exponent])))
    result = checked(PASS, graph).graph
    assert ops(result) == {"Exp": 1, **wanted}
    assert len({node.name for node in result.nodes}) == len(result.nodes)


def test_what_has_no_cheaper_form_is_left() -> None:
    sketch, x = start()
    other = sketch.node("Abs", x)
    kept = [
        sketch.node("Div", x, other),
        sketch.node("Div", sketch.constant(1.0), x),
        sketch.node("Pow", x, sketch.constant(1.7)),
        sketch.node("Pow", x, other),
        sketch.node("Pow", x, sketch.constant([2.0] * 5)),
    ]
    unchanged(PASS, sketch.graph(sketch.node("Sum", *kept)))


def test_a_power_that_broadcasts_is_left() -> None:
    sketch, x = start()
    y = sketch.node("Pow", x, sketch.constant([[[2.0]]]), shape=(1, 3, 5))
    unchanged(PASS, sketch.graph(y))


def test_integer_division_is_left() -> None:
    sketch = Sketch()
    x = sketch.input(4, dtype=DType.INT64)
    unchanged(PASS, sketch.graph(sketch.node("Div", x, sketch.constant(2))))
