"""Values per output channel of a matrix operator, and moving them into its weights and bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, Node, TensorType, value_of
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.edit import GraphEdit

MATRIX_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "MatMulBias")


@dataclass(frozen=True, slots=True)
class ChannelVector:
    """One number per output channel, computed when asked for.

    `load()` gives float64 `[channels]`. Vectors of equal `key` and length are equal.
    """

    key: str
    load: Callable[[], Array]


def channel_axis(edit: GraphEdit, node: Node) -> int:
    """The output axis that holds a matrix operator's output channels."""
    rank = len(edit.shape(node.outputs[0]))
    return rank - 1 if node.op in ("MatMul", "MatMulBias") else 1


def channel_count(edit: GraphEdit, node: Node) -> int:
    """How many output channels a matrix operator has."""
    return edit.shape(node.outputs[0])[channel_axis(edit, node)]


def is_matrix(edit: GraphEdit, node: Node) -> bool:
    """Whether both operands are matrices or more, so that output channels are an axis."""
    if node.op not in MATRIX_OPS:
        return False
    return all(len(edit.shape(name)) >= 2 for name in node.inputs[:2])


def matrix_before(edit: GraphEdit, name: str) -> Node | None:
    """The matrix operator that makes a value for one reader only."""
    node = edit.producer(name, *MATRIX_OPS) if edit.single_use(name) else None
    return node if node is not None and is_matrix(edit, node) else None


def channel_vector(edit: GraphEdit, name: str, node: Node) -> ChannelVector | None:
    """A constant as a vector over the output channels of `node`, if it varies only there."""
    out = node.outputs[0]
    return vector_along(edit, name, out, channel_axis(edit, node))


def vector_along(edit: GraphEdit, name: str, value: str, axis: int) -> ChannelVector | None:
    """A constant that broadcasts against `value` and varies only along one of its axes."""
    constant = edit.constant(name)
    if constant is None or not constant.type.dtype.is_float:
        return None
    rank, extent = len(edit.shape(value)), edit.shape(value)[axis]
    shape = (1,) * (rank - len(constant.type.shape)) + constant.type.shape
    elsewhere = prod(shape[:axis]) * prod(shape[axis + 1 :])
    if len(shape) != rank or elsewhere != 1 or shape[axis] not in (1, extent):
        return None
    return _vector(name, constant, extent)


def _bias_vector(edit: GraphEdit, node: Node) -> ChannelVector | None:
    """The operator's constant bias. A convolution's is `[channels]`, others' broadcasts."""
    name = node.inputs[2]
    constant = edit.constant(name)
    if constant is None or node.op not in ("Conv", "ConvTranspose"):
        return channel_vector(edit, name, node)
    return _vector(name, constant, channel_count(edit, node))


def _vector(name: str, constant: Constant, channels: int) -> ChannelVector:
    return ChannelVector(name, lambda: np.broadcast_to(_wide(constant), channels))


def uniform(value: float, channels: int) -> ChannelVector:
    """The same value for every channel."""
    return ChannelVector(repr(value), lambda: np.full(channels, value))


def negated(vector: ChannelVector) -> ChannelVector:
    """The vector with its sign changed."""
    return ChannelVector(f"-{vector.key}", lambda: -vector.load())


def absorbed(
    edit: GraphEdit,
    node: Node,
    scale: ChannelVector | None = None,
    shift: ChannelVector | None = None,
) -> Node | None:
    """A node that gives what `node` gives, times `scale`, plus `shift`; `None` if none can.

    It needs constant weights to be scaled, and a bias that is constant or absent.
    """
    old_bias = node.inputs[2] if len(node.inputs) > 2 else ""
    bias = _bias_vector(edit, node) if old_bias else None
    weight = _scaled_weight(edit, node, scale) if scale is not None else node.inputs[1]
    if not weight or (old_bias and bias is None):
        return None
    if bias is None and shift is None:
        return replace(node, inputs=(node.inputs[0], weight))
    channels = channel_count(edit, node)
    terms = _Bias(channels, bias, node.float("beta", 1.0), scale, shift)
    constant = Constant(TensorType(DType.FLOAT32, (channels,)), terms.load)
    hint = f"{old_bias or node.outputs[0]}.folded"
    name = edit.add_constant(hint, constant, key=terms.key)
    return _with_bias(edit, node, (node.inputs[0], weight, name))


@dataclass(frozen=True, slots=True)
class _Bias:
    """old * beta * scale + shift, in float64 and then float32 `[channels]`."""

    channels: int
    old: ChannelVector | None
    beta: float
    scale: ChannelVector | None
    shift: ChannelVector | None

    @property
    def key(self) -> str:
        parts = [vector.key if vector else "" for vector in (self.old, self.scale, self.shift)]
        return "\n".join(("bias", str(self.channels), *parts, repr(self.beta)))

    def load(self) -> Array:
        total = np.zeros(self.channels)
        if self.old is not None:
            total = self.old.load() * self.beta
        if self.scale is not None:
            total = total * self.scale.load()
        if self.shift is not None:
            total = total + self.shift.load()
        return total.astype(np.float32)


def _with_bias(edit: GraphEdit, node: Node, inputs: tuple[str, str, str]) -> Node:
    if node.op == "Gemm":
        return replace(node, inputs=inputs, attributes={**node.attributes, "beta": 1.0})
    if node.op != "MatMul":
        return replace(node, inputs=inputs)
    if all(len(edit.shape(name)) == 2 for name in inputs[:2]):
        return replace(node, op="Gemm", inputs=inputs)
    return replace(node, op="MatMulBias", domain=INTERNAL_DOMAIN, opset=1, inputs=inputs)


def _scaled_weight(edit: GraphEdit, node: Node, scale: ChannelVector) -> str:
    """The constant weights times `scale`; the empty string where they are computed."""
    name = node.inputs[1]
    weight = edit.constant(name)
    if weight is None:
        return ""

    def load() -> Array:
        values = value_of(weight)
        return (values * _spread(node, scale.load(), values.shape)).astype(values.dtype)

    layout = (node.op, str(node.int("group", 1)), str(node.int("transB", 0)))
    key = "\n".join(("weight", name, scale.key, *layout))
    return edit.add_constant(f"{name}.scaled", Constant(weight.type, load), key=key)


def _spread(node: Node, factors: Array, shape: tuple[int, ...]) -> Array:
    """Factors per output channel so that they broadcast against the operator's weights."""
    taps = (1,) * (len(shape) - 2)
    if node.op == "ConvTranspose":  # [inputs of all groups, outputs of one group, taps]
        groups = node.int("group", 1)
        of_group = factors.reshape(groups, shape[1])
        return np.repeat(of_group, shape[0] // groups, axis=0).reshape(*shape[:2], *taps)
    if node.op == "Conv" or (node.op == "Gemm" and node.int("transB", 0)):
        return factors.reshape(-1, 1, *taps)
    return factors


def _wide(constant: Constant) -> Array:
    return value_of(constant).astype(np.float64).reshape(-1)
