"""Fold an inference BatchNormalization into the weights before it, or make it Mul and Add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, Graph, Node, TensorType, value_of
from compiler.passes.base import PassResult
from compiler.passes.channels import ChannelVector, absorbed, channel_axis, matrix_before
from compiler.passes.edit import GraphEdit, rewrite

_EPSILON = 1e-5
"""Default of the operator (ONNX BatchNormalization)."""


@dataclass(frozen=True, slots=True)
class FuseBatchNorm:
    """A BatchNormalization with parameters that are not constant, or that trains, stays."""

    name: ClassVar[str] = "fuse_batchnorm"

    def run(self, graph: Graph) -> PassResult:
        """Fold or split each BatchNormalization."""
        return rewrite(graph, {"BatchNormalization": _fuse})


@dataclass(frozen=True, slots=True)
class _Affine:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta as x * scale + shift, in float64.

    `parameters` are gamma, beta, mean and variance.
    """

    parameters: tuple[Constant, ...]
    epsilon: float

    def scale(self) -> Array:
        gamma, _, _, variance = self.parameters
        return np.asarray(_wide(gamma) / np.sqrt(_wide(variance) + self.epsilon))

    def shift(self) -> Array:
        _, beta, mean, _ = self.parameters
        return np.asarray(_wide(beta) - _wide(mean) * self.scale())


def _fuse(edit: GraphEdit, node: Node) -> None:
    affine = _affine(edit, node)
    if affine is None:
        return
    key = "\n".join(("batchnorm", *node.inputs[1:], repr(affine.epsilon)))
    scale, shift = ChannelVector(f"{key}*", affine.scale), ChannelVector(f"{key}+", affine.shift)
    matrix = matrix_before(edit, node.inputs[0])
    fused = None
    if matrix is not None and channel_axis(edit, matrix) == 1:
        fused = absorbed(edit, matrix, scale, shift)
    if fused is not None:
        edit.substitute(node, replace(fused, outputs=node.outputs[:1]))
    else:
        _split(edit, node, scale, shift)


def _affine(edit: GraphEdit, node: Node) -> _Affine | None:
    channels = edit.shape(node.inputs[0])[1:2]
    trains = node.int("training_mode", 0) or (node.opset < 7 and not node.int("is_test", 0))
    if trains or any(name and edit.uses(name) for name in node.outputs[1:]):
        return None
    parameters = [edit.constant(name) for name in node.inputs[1:]]
    known = tuple(c for c in parameters if c is not None and c.type.shape == channels)
    if len(known) != 4:
        return None
    return _Affine(known, node.float("epsilon", _EPSILON))


def _split(edit: GraphEdit, node: Node, scale: ChannelVector, shift: ChannelVector) -> None:
    source, out = node.inputs[0], node.outputs[0]
    product = edit.add_value(f"{out}.scaled", edit.type(out))
    factor = _channelwise(edit, source, scale, f"{out}.scale")
    addend = _channelwise(edit, source, shift, f"{out}.shift")
    plain = replace(node, attributes={}, outputs=(out,))
    edit.substitute(
        node,
        replace(
            plain,
            name=f"{node.name}.scale",
            op="Mul",
            inputs=(source, factor),
            outputs=(product,),
        ),
        replace(plain, op="Add", inputs=(product, addend)),
    )


def _channelwise(edit: GraphEdit, source: str, vector: ChannelVector, hint: str) -> str:
    """A constant that broadcasts over the channels (axis 1) of `source`."""
    shape = edit.shape(source)[1:2] + (1,) * (len(edit.shape(source)) - 2)

    def load() -> Array:
        return vector.load().astype(np.float32).reshape(shape)

    constant = Constant(TensorType(DType.FLOAT32, shape), load)
    return edit.add_constant(hint, constant, key=f"{vector.key}{shape}")


def _wide(constant: Constant) -> Array:
    return value_of(constant).astype(np.float64)
