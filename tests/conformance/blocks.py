"""Parts of real networks as exporters write them, small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph
from tests.compiler.passes.sketch import Sketch

LENGTH, WIDTH, HEADS = 6, 8, 2


def encoder() -> Graph:
    """A BERT layer by the TorchScript exporter: LayerNorm and GELU taken apart."""
    sketch = Sketch(opset=14)
    x = _layer_norm(sketch, sketch.input(2, LENGTH, WIDTH))
    mask = sketch.input(2, LENGTH, dtype=DType.INT64)
    joined = _joined_heads(sketch, _attention(sketch, x, _attention_bias(sketch, mask)))
    x = _layer_norm(sketch, sketch.node("Add", _dense(sketch, joined, WIDTH), x))
    inner = _dense(sketch, x, 3 * WIDTH)
    erf = sketch.node("Erf", sketch.node("Div", inner, sketch.constant(1.4142135)))
    gelu = sketch.node("Mul", inner, sketch.node("Add", erf, sketch.constant(1.0)))
    outer = _dense(sketch, sketch.node("Mul", gelu, sketch.constant(0.5)), WIDTH)
    y = _layer_norm(sketch, sketch.node("Add", outer, x))
    first = sketch.node("Gather", y, sketch.constant(0), shape=(2, WIDTH), axis=1)
    return sketch.graph(y, sketch.node("Tanh", _dense(sketch, first, WIDTH)))


def packed_attention() -> Graph:
    """A ViT layer: one projection for queries, keys and values, unit axes moved about."""
    sketch = Sketch(opset=17)
    x = sketch.input(1, LENGTH, WIDTH)
    turned = sketch.node("Transpose", x, perm=(1, 0, 2), shape=(LENGTH, 1, WIDTH))
    packed = _dense(sketch, turned, 3 * WIDTH)
    packed = _reshaped(sketch, packed, LENGTH, 1, 3, WIDTH)
    packed = sketch.node("Unsqueeze", packed, sketch.constant([0]), shape=(1, LENGTH, 1, 3, WIDTH))
    front = sketch.node("Transpose", packed, perm=(3, 1, 2, 0, 4), shape=(3, LENGTH, 1, 1, WIDTH))
    parts = sketch.node("Squeeze", front, sketch.constant([-2]), shape=(3, LENGTH, 1, WIDTH))
    sides = []
    for i in range(3):
        part = sketch.node("Gather", parts, sketch.constant(i), shape=(LENGTH, 1, WIDTH), axis=0)
        part = _reshaped(sketch, part, LENGTH, HEADS, WIDTH // HEADS)
        sides.append(
            sketch.node("Transpose", part, perm=(1, 0, 2), shape=(HEADS, LENGTH, WIDTH // HEADS))
        )
    query = sketch.node("Mul", sides[0], sketch.constant([0.7]))
    key = sketch.node("Transpose", sides[1], perm=(0, 2, 1), shape=(HEADS, WIDTH // HEADS, LENGTH))
    key = sketch.node("Mul", key, sketch.constant([0.7]))
    scores = sketch.node("MatMul", query, key, shape=(HEADS, LENGTH, LENGTH))
    weights = sketch.node("Softmax", scores, axis=-1)
    mixed = sketch.node("MatMul", weights, sides[2], shape=(HEADS, LENGTH, WIDTH // HEADS))
    return sketch.graph(sketch.node("Transpose", mixed, perm=(1, 0, 2), shape=(LENGTH, HEADS, 4)))


def decoder() -> Graph:
    """A Llama layer's ends: RMSNorm taken apart, a gate by SiLU."""
    sketch = Sketch(opset=14)
    x = sketch.input(2, LENGTH, WIDTH)
    square = sketch.node("Pow", x, sketch.constant(2.0))
    mean = sketch.node("ReduceMean", square, axes=(-1,), shape=(2, LENGTH, 1))
    root = sketch.node("Sqrt", sketch.node("Add", mean, sketch.constant(1e-5)))
    y = sketch.node("Mul", x, sketch.node("Div", sketch.constant(1.0), root))
    y = sketch.node("Mul", sketch.random(WIDTH), y)
    gate = _matmul(sketch, y, 2 * WIDTH)
    gate = sketch.node("Mul", gate, sketch.node("Sigmoid", gate))
    product = sketch.node("Mul", gate, _matmul(sketch, y, 2 * WIDTH))
    return sketch.graph(sketch.node("Add", x, _matmul(sketch, product, WIDTH)))


def residual() -> Graph:
    """A residual block as trained: BatchNormalization, a Pad, no-ops, a projection."""
    sketch = Sketch(opset=13)
    x = sketch.input(2, 4, 9, 7)
    padded = sketch.node("Pad", x, sketch.constant([0, 0, 1, 1, 0, 0, 1, 1]), shape=(2, 4, 11, 9))
    y = _conv(sketch, padded, 6, kernel=3, shape=(2, 6, 9, 7))
    y = sketch.node("Relu", _batch_norm(sketch, y))
    y = sketch.node("Identity", y)
    y = _conv(sketch, y, 6, kernel=1, shape=(2, 6, 9, 7))
    y = sketch.node("Mul", y, sketch.random(6, 1, 1))
    y = sketch.node("Add", y, sketch.random(1, 6, 1, 1))
    y = sketch.node(
        "Add", _batch_norm(sketch, y), _conv(sketch, x, 6, kernel=1, shape=(2, 6, 9, 7))
    )
    y = sketch.node("Relu", _batch_norm(sketch, sketch.node("Relu", y)))
    pooled = sketch.node("GlobalAveragePool", y, shape=(2, 6, 1, 1))
    flat = sketch.node("Flatten", pooled, axis=1, shape=(2, 6))
    return sketch.graph(_dense(sketch, sketch.node("Dropout", flat), 5))


def mobile() -> Graph:
    """A MobileNetV3 block by another exporter: hard-swish and the gate taken apart."""
    sketch = Sketch(opset=12)
    x = sketch.input(1, 4, 8, 8)
    y = _hard_swish(sketch, _conv(sketch, x, 8, kernel=1, shape=(1, 8, 8, 8)))
    weight = sketch.random(8, 1, 3, 3)
    y = sketch.node("Conv", y, weight, shape=(1, 8, 8, 8), group=8, pads=(1, 1, 1, 1))
    y = _hard_swish(sketch, _batch_norm(sketch, y))
    pooled = sketch.node("GlobalAveragePool", y, shape=(1, 8, 1, 1))
    gate = _conv(sketch, pooled, 8, kernel=1, shape=(1, 8, 1, 1))
    y = sketch.node("Mul", y, sketch.node("HardSigmoid", gate, alpha=1 / 6, beta=0.5))
    y = _conv(sketch, y, 4, kernel=1, shape=(1, 4, 8, 8))
    return sketch.graph(sketch.node("Add", x, y))


def narrow() -> Graph:
    """A model in float16 between casts, its copies, and a node that nobody reads."""
    sketch = Sketch(opset=17)
    x = sketch.node("Cast", sketch.input(3, 4), dtype=DType.FLOAT16, to=10)
    weight = sketch.constant(np.linspace(-1, 1, 20).reshape(4, 5), np.float16)
    ends = []
    for _ in range(2):
        y = sketch.node("MatMul", x, weight, shape=(3, 5))
        y = sketch.node("Add", y, sketch.constant(np.arange(5.0), np.float16))
        ends.append(sketch.node("Relu", y))
    sketch.node("Exp", ends[0])
    total = sketch.node("Add", *ends)
    return sketch.graph(sketch.node("Cast", total, dtype=DType.FLOAT32, to=1))


BLOCKS: tuple[Callable[[], Graph], ...] = (
    encoder,
    packed_attention,
    decoder,
    residual,
    mobile,
    narrow,
)


def _reshaped(sketch: Sketch, x: str, *shape: int) -> str:
    return sketch.node("Reshape", x, sketch.constant(list(shape)), shape=shape)


def _matmul(sketch: Sketch, x: str, outputs: int) -> str:
    *batch, inputs = sketch.types[x].shape
    return sketch.node("MatMul", x, sketch.random(inputs, outputs), shape=(*batch, outputs))


def _dense(sketch: Sketch, x: str, outputs: int) -> str:
    return sketch.node("Add", sketch.random(outputs), _matmul(sketch, x, outputs))


def _layer_norm(sketch: Sketch, x: str) -> str:
    kept = (*sketch.types[x].shape[:-1], 1)
    difference = sketch.node("Sub", x, sketch.node("ReduceMean", x, axes=(-1,), shape=kept))
    square = sketch.node("Pow", difference, sketch.constant(2.0))
    variance = sketch.node("ReduceMean", square, axes=(-1,), shape=kept)
    root = sketch.node("Sqrt", sketch.node("Add", variance, sketch.constant(1e-6)))
    scaled = sketch.node("Mul", sketch.node("Div", difference, root), sketch.random(WIDTH))
    return sketch.node("Add", scaled, sketch.random(WIDTH))


def _attention_bias(sketch: Sketch, mask: str) -> str:
    wide = sketch.node("Unsqueeze", mask, sketch.constant([1]), shape=(2, 1, LENGTH))
    wide = sketch.node("Unsqueeze", wide, sketch.constant([2]), shape=(2, 1, 1, LENGTH))
    floats = sketch.node("Cast", wide, dtype=DType.FLOAT32, to=1)
    inverse = sketch.node("Sub", sketch.constant(1.0), floats)
    bias = sketch.node("Mul", inverse, sketch.constant(-100.0))
    full = (2, 1, LENGTH, LENGTH)
    return sketch.node("Expand", bias, sketch.constant(list(full)), shape=full)


def _attention(sketch: Sketch, x: str, bias: str) -> str:
    full = (2, HEADS, LENGTH, LENGTH)
    query, key, value = (_dense(sketch, x, WIDTH) for _ in range(3))
    keys = _heads(sketch, key, (0, 2, 3, 1), (2, HEADS, WIDTH // HEADS, LENGTH))
    scores = sketch.node("MatMul", _heads(sketch, query), keys, shape=full)
    scores = sketch.node("Div", scores, sketch.constant(2.0))
    weights = sketch.node("Softmax", sketch.node("Add", scores, bias), axis=-1)
    shape = (2, HEADS, LENGTH, WIDTH // HEADS)
    return sketch.node("MatMul", weights, _heads(sketch, value), shape=shape)


def _heads(
    sketch: Sketch,
    x: str,
    perm: tuple[int, ...] = (0, 2, 1, 3),
    shape: tuple[int, ...] = (2, HEADS, LENGTH, WIDTH // HEADS),
) -> str:
    split = _reshaped(sketch, x, 2, LENGTH, HEADS, WIDTH // HEADS)
    return sketch.node("Transpose", split, perm=perm, shape=shape)


def _joined_heads(sketch: Sketch, x: str) -> str:
    back = sketch.node("Transpose", x, perm=(0, 2, 1, 3), shape=(2, LENGTH, HEADS, WIDTH // HEADS))
    return _reshaped(sketch, back, 2, LENGTH, WIDTH)


def _conv(sketch: Sketch, x: str, outputs: int, *, kernel: int, shape: tuple[int, ...]) -> str:
    weight = sketch.random(outputs, sketch.types[x].shape[1], kernel, kernel)
    return sketch.node("Conv", x, weight, sketch.random(outputs), shape=shape)


def _batch_norm(sketch: Sketch, x: str) -> str:
    channels = sketch.types[x].shape[1]
    parameters = [sketch.random(channels, low=0.3) for _ in range(4)]
    shape = sketch.types[x].shape
    return sketch.node("BatchNormalization", x, *parameters, shape=shape, epsilon=1e-3)


def _hard_swish(sketch: Sketch, x: str) -> str:
    shifted = sketch.node("Add", x, sketch.constant([3.0]))
    bounds = (sketch.constant(0.0), sketch.constant(6.0))
    gate = sketch.node("Clip", shifted, *bounds, shape=sketch.types[x].shape)
    return sketch.node("Div", sketch.node("Mul", x, gate), sketch.constant([6.0]))
