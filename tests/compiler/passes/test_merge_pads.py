from __future__ import annotations

import numpy as np
import pytest

from compiler.passes.merge_pads import MergePads
from tests.compiler.passes.sketch import Sketch, checked, only, ops, unchanged

PASS = MergePads()


def padded(
    sketch: Sketch,
    pads: list[int],
    *extra: str,
    extents: tuple[int, ...] = (2, 3, 5, 6),
    **more: str,
) -> str:
    rank = len(extents)
    shape = tuple(n + pads[i] + pads[i + rank] for i, n in enumerate(extents))
    return sketch.node(
        "Pad", sketch.input(*extents), sketch.constant(pads), *extra, shape=shape, attributes=more
    )


def conv(sketch: Sketch, x: str, **attributes: tuple[int, ...] | str) -> str:
    before = sketch.types[x].shape
    pads = attributes.get("pads", (0,) * 4)
    assert isinstance(pads, tuple)
    rows = before[2] + pads[0] + pads[2] - 2
    columns = before[3] + pads[1] + pads[3] - 1
    weight = sketch.random(2, before[1], 3, 2)
    return sketch.node(
        "Conv", x, weight, shape=(before[0], 2, rows, columns), attributes=attributes
    )


@pytest.mark.parametrize("own", [(), (1, 1, 0, 2)])
def test_zeros_around_join_the_convolution(own: tuple[int, ...]) -> None:
    sketch = Sketch()
    y = conv(sketch, padded(sketch, [0, 0, 1, 2, 0, 0, 3, 0]), **({"pads": own} if own else {}))
    graph = checked(PASS, sketch.graph(y)).graph
    assert ops(graph) == {"Conv": 1}
    old = own or (0,) * 4
    assert only(graph, "Conv").ints("pads") == tuple(np.add(old, (1, 2, 3, 0)).tolist())


def test_a_named_zero_and_axes() -> None:
    sketch = Sketch(opset=18)
    x = sketch.input(1, 2, 4, 5)
    pads, zero, axes = (
        sketch.constant([1, 2, 3, 4]),
        sketch.constant(0.0),
        sketch.constant([-1, 2]),
    )
    y = sketch.node("Pad", x, pads, zero, axes, shape=(1, 2, 10, 9))
    graph = checked(PASS, sketch.graph(conv(sketch, y, auto_pad="VALID"))).graph
    assert ops(graph) == {"Conv": 1}
    assert only(graph, "Conv").ints("pads") == (2, 1, 4, 3)


def test_pads_before_opset_11() -> None:
    sketch = Sketch(opset=10)
    x = sketch.input(1, 2, 4, 5)
    y = sketch.node("Pad", x, shape=(1, 2, 6, 6), pads=(0, 0, 1, 0, 0, 0, 1, 1))
    assert ops(checked(PASS, sketch.graph(conv(sketch, y))).graph) == {"Conv": 1}


def test_the_pad_stays_for_its_other_reader() -> None:
    sketch = Sketch()
    pad = padded(sketch, [0, 0, 1, 1, 0, 0, 1, 1])
    graph = checked(PASS, sketch.graph(conv(sketch, pad), sketch.node("Abs", pad))).graph
    assert ops(graph) == {"Pad": 1, "Conv": 1, "Abs": 1}
    assert only(graph, "Conv").inputs[0] in graph.inputs


@pytest.mark.parametrize(
    "pads", [[0, 1, 1, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, 1, 1]]
)
def test_other_axes_and_cropping_stay(pads: list[int]) -> None:
    sketch = Sketch()
    unchanged(PASS, sketch.graph(conv(sketch, padded(sketch, pads))))


def test_other_values_stay() -> None:
    sketch = Sketch()
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    one = conv(sketch, padded(sketch, pads, sketch.constant(1.0)))
    computed = conv(sketch, padded(sketch, pads, sketch.input()))
    mirrored = conv(sketch, padded(sketch, pads, mode="reflect"))
    unchanged(PASS, sketch.graph(one, computed, mirrored))


def test_a_convolution_that_pads_by_rule_is_left() -> None:
    sketch = Sketch()
    x = padded(sketch, [0, 0, 1, 1, 0, 0, 1, 1])
    y = sketch.node(
        "Conv", x, sketch.random(2, 3, 3, 3), shape=(2, 2, 7, 8), auto_pad="SAME_UPPER"
    )
    unchanged(PASS, sketch.graph(y))
