"""Recognise a normalisation over the last axes that an exporter took apart.

LayerNormalization: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * gamma + beta
RMSNormalization:   x / sqrt(mean(x^2) + epsilon) * gamma
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, Graph, Node, TensorType, value_of
from compiler.passes.arithmetic import near, operands, shifted
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

_LAYERNORM = ("LayerNormalization", 17)
_RMSNORM = ("RMSNormalization", 23)
"""Operators and the opsets that brought them."""


@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Gamma and beta join when they are constant; otherwise they stay as Mul and Add behind."""

    name: ClassVar[str] = "fuse_layernorm"

    def run(self, graph: Graph) -> PassResult:
        """Fuse where a value is divided by the root of its mean square."""
        return rewrite(graph, {"Div": _divided, "Mul": _multiplied})


@dataclass(frozen=True, slots=True)
class _Square:
    """`value` was squared and averaged over `axes`; the square reads it `reads` times."""

    value: str
    reads: int
    axes: tuple[int, ...]
    epsilon: float


def _divided(edit: GraphEdit, node: Node) -> None:
    """x / sqrt(...)."""
    _fuse(edit, node, node.inputs[0], _root_input(edit, node.inputs[1]))


def _multiplied(edit: GraphEdit, node: Node) -> None:
    """x * (1 / sqrt(...))."""
    for value, factor in operands(node):
        for variance in _inverse_root_inputs(edit, factor):
            if _fuse(edit, node, value, variance):
                return


def _root_input(edit: GraphEdit, name: str) -> str:
    root = edit.producer(name, "Sqrt", "Pow") if edit.single_use(name) else None
    if root is None or (root.op == "Pow" and edit.scalar(root.inputs[1]) != 0.5):
        return ""
    return root.inputs[0]


def _inverse_root_inputs(edit: GraphEdit, name: str) -> Iterator[str]:
    inverse = edit.producer(name, "Reciprocal", "Div", "Pow") if edit.single_use(name) else None
    if inverse is None:
        return
    if inverse.op == "Reciprocal":
        yield _root_input(edit, inverse.inputs[0])
    elif inverse.op == "Div" and near(edit.scalar(inverse.inputs[0]), 1.0):
        yield _root_input(edit, inverse.inputs[1])
    elif inverse.op == "Pow" and edit.scalar(inverse.inputs[1]) == -0.5:
        yield inverse.inputs[0]


def _fuse(edit: GraphEdit, node: Node, value: str, variance: str) -> bool:
    """Fuse at `node` if it normalises `value` by the root of `variance`."""
    square = _mean_square(edit, variance)
    if square is None or square.value != value:
        return False
    axis = _first_axis(edit, value, square.axes)
    if axis is None:
        return False
    normalized, source = edit.shape(value)[axis:], _centred(edit, square)
    last, gamma = _parameter(edit, node, "Mul", normalized)
    last, beta = _parameter(edit, last, "Add", normalized) if source else (last, "")
    parameters = (gamma or _ones(edit, node, normalized), beta)
    op, since = _LAYERNORM if source else _RMSNORM
    fused = replace(
        last,
        op=op,
        domain="",
        opset=max(node.opset, since),
        inputs=(source or value, *filter(None, parameters)),
        attributes={"axis": axis - len(edit.shape(value)), "epsilon": square.epsilon},
    )
    edit.substitute(last, fused)
    return True


def _mean_square(edit: GraphEdit, name: str) -> _Square | None:
    """What `name` is the mean square of, plus epsilon."""
    add = edit.producer(name, "Add") if edit.single_use(name) else None
    plus = shifted(edit, add) if add is not None else None
    if plus is None or not edit.single_use(plus[0]):
        return None
    mean = edit.producer(plus[0], "ReduceMean")
    if mean is None or not edit.single_use(mean.inputs[0]):
        return None
    squared, axes = edit.producer(mean.inputs[0], "Pow", "Mul"), _kept_axes(edit, mean)
    if squared is None or axes is None:
        return None
    value, other = squared.inputs
    if squared.op == "Mul":
        return _Square(value, 2, axes, plus[1]) if value == other else None
    return _Square(value, 1, axes, plus[1]) if edit.scalar(other) == 2.0 else None


def _kept_axes(edit: GraphEdit, mean: Node) -> tuple[int, ...] | None:
    """The axes of a ReduceMean that keeps them (as extent 1), counted from the front."""
    given: tuple[int, ...] | None = mean.ints("axes")
    if len(mean.inputs) > 1 and mean.inputs[1]:
        given = edit.ints(mean.inputs[1])
    if not given or not mean.int("keepdims", 1):
        return None
    rank = len(edit.shape(mean.inputs[0]))
    return tuple(sorted(axis % rank for axis in given))


def _first_axis(edit: GraphEdit, value: str, axes: tuple[int, ...]) -> int | None:
    """The first of `axes` if they are the last ones of `value` without a gap."""
    rank = len(edit.shape(value))
    return axes[0] if axes == tuple(range(axes[0], rank)) else None


def _centred(edit: GraphEdit, square: _Square) -> str:
    """The x of x - mean(x), where that difference has no reader but this normalisation."""
    sub = edit.producer(square.value, "Sub")
    if sub is None or edit.uses(square.value) != square.reads + 1:
        return ""
    source, name = sub.inputs
    mean = edit.producer(name, "ReduceMean")
    if mean is None or mean.inputs[0] != source or not edit.single_use(name):
        return ""
    return source if _kept_axes(edit, mean) == square.axes else ""


def _parameter(
    edit: GraphEdit, node: Node, op: str, normalized: tuple[int, ...]
) -> tuple[Node, str]:
    """The node behind `node` that applies a constant per normalised element, and that constant.

    (node, '') where the result is not read by such a node alone.
    """
    user = edit.only_user(node.outputs[0], op)
    if user is None or edit.shape(user.outputs[0]) != edit.shape(node.outputs[0]):
        return node, ""
    for value, name in operands(user):
        constant = edit.constant(name)
        if value == node.outputs[0] and constant is not None and _fits(constant, normalized):
            return user, _reshaped(edit, name, constant, normalized)
    return node, ""


def _fits(constant: Constant, normalized: tuple[int, ...]) -> bool:
    shape = constant.type.shape
    leading = len(shape) - len(normalized)
    return prod(shape) == 1 or (
        leading >= 0 and shape[leading:] == normalized and prod(shape[:leading]) == 1
    )


def _reshaped(edit: GraphEdit, name: str, constant: Constant, shape: tuple[int, ...]) -> str:
    if constant.type.shape == shape:
        return name

    def load() -> Array:
        values = value_of(constant)
        return values.reshape(shape) if values.size != 1 else np.full(shape, values.reshape(-1)[0])

    shaped = Constant(TensorType(constant.type.dtype, shape), load)
    return edit.add_constant(f"{name}.normalized", shaped, key=f"{name}{shape}")


def _ones(edit: GraphEdit, node: Node, shape: tuple[int, ...]) -> str:
    type_ = TensorType(DType.FLOAT32, shape)
    ones = Constant(type_, lambda: np.ones(shape, dtype=np.float32))
    return edit.add_constant(f"{node.outputs[0]}.ones", ones, key=f"ones{shape}")
