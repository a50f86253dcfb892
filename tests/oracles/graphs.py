"""Small graphs built by hand, for tests of what comes after the importer."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import AttributeValue, Constant, Graph, Node, TensorType


class GraphBuilder:
    """Adds float32 operators one after another; shapes are given, not inferred."""

    def __init__(self, name: str = "built", batch_size: int = 1) -> None:
        self.name = name
        self.batch_size = batch_size
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        self.types[name] = TensorType(DType.FLOAT32, shape)
        self.inputs.append(name)
        return name

    def weight(self, name: str, shape: tuple[int, ...], fill: float = 0.01) -> str:
        type_ = TensorType(DType.FLOAT32, shape)
        self.types[name] = type_
        self.constants[name] = Constant(type_, lambda: np.full(shape, fill, dtype=np.float32))
        return name

    def op(
        self,
        op: str,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        attributes: dict[str, AttributeValue] | None = None,
        domain: str = "",
    ) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(
            Node(name, op, domain, 17, inputs, (name,), MappingProxyType(attributes or {}))
        )
        self.types[name] = TensorType(DType.FLOAT32, shape)
        return name

    def conv(
        self, source: str, outputs: int, kernel: int = 3, stride: int = 1, group: int = 1
    ) -> str:
        batch, channels, height, width = self.types[source].shape
        weight = self.weight(f"w{len(self.nodes)}", (outputs, channels // group, kernel, kernel))
        pad = kernel // 2
        shape = (
            batch,
            outputs,
            (height + 2 * pad - kernel) // stride + 1,
            (width + 2 * pad - kernel) // stride + 1,
        )
        attributes: dict[str, AttributeValue] = {
            "kernel_shape": (kernel, kernel),
            "strides": (stride, stride),
            "pads": (pad, pad, pad, pad),
            "group": group,
        }
        return self.op("Conv", (source, weight), shape, attributes)

    def dense(self, source: str, outputs: int) -> str:
        shape = self.types[source].shape
        weight = self.weight(f"w{len(self.nodes)}", (shape[-1], outputs))
        return self.op("MatMul", (source, weight), (*shape[:-1], outputs))

    def build(self, *outputs: str) -> Graph:
        return Graph(
            name=self.name,
            inputs=tuple(self.inputs),
            outputs=outputs,
            nodes=tuple(self.nodes),
            types=MappingProxyType(dict(self.types)),
            constants=MappingProxyType(dict(self.constants)),
            batch_size=self.batch_size,
        )


def funnel(batch: int) -> Graph:
    """Activations shrink from layer to layer while weights grow: 1.7, 0.6 and 0.6 MB a sample."""
    builder = GraphBuilder("funnel", batch)
    x = builder.input("x", (batch, 32, 112, 112))
    x = builder.conv(builder.conv(x, 72, 1), 72, 1)
    x = builder.conv(x, 512, 3, 5)
    x = builder.conv(builder.conv(x, 512, 3), 512, 3)
    return builder.build(builder.conv(x, 32, 3, 2))


def small_cnn(batch: int = 2, size: int = 30, channels: int = 48) -> Graph:
    """Stem, residual block, depthwise, pool and classifier; sizes do not divide by blocks."""
    builder = GraphBuilder("small_cnn", batch)
    x = builder.input("image", (batch, 3, size, size))
    stem = builder.op("Relu", (builder.conv(x, channels),), (batch, channels, size, size))
    left = builder.conv(stem, channels)
    add = builder.op("Add", (left, stem), (batch, channels, size, size))
    deep = builder.conv(add, channels, group=channels)
    pooled = builder.op("GlobalAveragePool", (deep,), (batch, channels, 1, 1))
    flat = builder.op("Flatten", (pooled,), (batch, channels))
    return builder.build(builder.dense(flat, 10))


def attention(batch: int = 2, length: int = 40, heads: int = 3, width: int = 64) -> Graph:
    """One attention block with its projections, as exporters write it."""
    model = heads * width
    builder = GraphBuilder("attention", batch)
    x = builder.input("hidden", (batch, length, model))
    q, k, v = (builder.dense(x, model) for _ in range(3))

    def split(source: str, order: tuple[int, ...]) -> str:
        shape = (batch, length, heads, width)
        reshaped = builder.op("Reshape", (source,), shape)
        moved = tuple(shape[axis] for axis in order)
        return builder.op("Transpose", (reshaped,), moved, {"perm": order})

    scores = builder.op(
        "MatMul", (split(q, (0, 2, 1, 3)), split(k, (0, 2, 3, 1))), (batch, heads, length, length)
    )
    probabilities = builder.op("Softmax", (scores,), (batch, heads, length, length), {"axis": -1})
    mixed = builder.op(
        "MatMul", (probabilities, split(v, (0, 2, 1, 3))), (batch, heads, length, width)
    )
    back = builder.op("Transpose", (mixed,), (batch, length, heads, width), {"perm": (0, 2, 1, 3)})
    joined = builder.op("Reshape", (back,), (batch, length, model))
    return builder.build(
        builder.op("Add", (builder.dense(joined, model), x), (batch, length, model))
    )
