"""Random graphs out of what the passes look for, in any order and with any readers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hypothesis import strategies as st

from compiler.ir.graph import Graph
from tests.compiler.passes.sketch import Sketch

Draw = Callable[[st.SearchStrategy[int]], int]

_UNARY = ("Relu", "Sigmoid", "Tanh", "Identity", "Abs", "HardSwish")
_BINARY = ("Add", "Sub", "Mul")
_SCALARS = (0.0, 1.0, 0.5, 2.0, 3.0, -1.5)
_SHAPES = ((2, 3, 4), (1, 4, 6), (4, 4), (1, 3, 2, 4))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to a dozen steps; outputs are the last value and maybe one from the middle."""
    sketch = Sketch(seed=draw(st.integers(0, 3)))
    values = [sketch.node("Tanh", sketch.input(*draw(st.sampled_from(_SHAPES))))]
    for _ in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from(_STEPS))
        values.append(step(draw, sketch, draw(st.sampled_from(values))))
    outputs = [values[-1]]
    middle = draw(st.sampled_from(values))
    if draw(st.booleans()) and middle not in outputs:
        outputs.append(middle)
    return sketch.graph(*outputs)


def _unary(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    return sketch.node(draw(st.sampled_from(_UNARY)), x)


def _scalar(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    pair = (x, sketch.constant(draw(st.sampled_from(_SCALARS))))
    op = draw(st.sampled_from(_BINARY))
    return sketch.node(op, *(pair if draw(st.booleans()) else reversed(pair)))


def _divided(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    return sketch.node("Div", x, sketch.constant(draw(st.sampled_from((1.0, 2.0, 6.0)))))


def _vector(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    shape = sketch.types[x].shape
    axis = draw(st.integers(0, len(shape) - 1))
    vector = sketch.random(shape[axis], *(1,) * (len(shape) - axis - 1))
    return sketch.node(draw(st.sampled_from(_BINARY)), x, vector)


def _gated(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    gate = sketch.node(draw(st.sampled_from(("Sigmoid", "Tanh", "Identity"))), x)
    return sketch.node("Mul", *((x, gate) if draw(st.booleans()) else (gate, x)))


def _power(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    bounded = sketch.node("Tanh", x)
    return sketch.node("Pow", bounded, sketch.constant(draw(st.sampled_from((1.0, 2.0, 3.0)))))


def _transposed(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    shape = sketch.types[x].shape
    perm = tuple(draw(st.permutations(range(len(shape)))))
    return sketch.node("Transpose", x, perm=perm, shape=tuple(shape[axis] for axis in perm))


def _reshaped(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    size = prod(sketch.types[x].shape)
    rows = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    shape = draw(st.sampled_from(((rows, size // rows), (1, rows, size // rows))))
    return sketch.node("Reshape", x, sketch.constant(list(shape)), shape=shape)


def _dense(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    *batch, inputs = sketch.types[x].shape
    outputs = draw(st.integers(1, 5))
    return sketch.node("MatMul", x, sketch.random(inputs, outputs), shape=(*batch, outputs))


def _cut(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    shape = sketch.types[x].shape
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(1, shape[axis]))
    shape = (*shape[:axis], count, *shape[axis + 1 :])
    return sketch.node("Gather", x, sketch.constant(list(range(count))), shape=shape, axis=axis)


def _normalized(draw: st.DrawFn, sketch: Sketch, x: str) -> str:
    shape = (*sketch.types[x].shape[:-1], 1)
    if draw(st.booleans()):
        x = sketch.node("Sub", x, sketch.node("ReduceMean", x, axes=(-1,), shape=shape))
    mean = sketch.node("ReduceMean", sketch.node("Mul", x, x), axes=(-1,), shape=shape)
    root = sketch.node("Sqrt", sketch.node("Add", mean, sketch.constant(0.5)))
    return sketch.node("Div", x, root)


_STEPS = (
    _unary,
    _scalar,
    _divided,
    _vector,
    _gated,
    _power,
    _transposed,
    _reshaped,
    _dense,
    _cut,
    _normalized,
)
