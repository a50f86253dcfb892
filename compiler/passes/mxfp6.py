"""Keep constant matrix operands in DDR as MXFP6: blocks of 32 six-bit floats with one scale.

OCP Microscaling Formats (MX) 1.0: an element is E2M3 or E3M2, the scale of a block is a power of
two in 8 bits, and 32 elements along the inner dimension share it. The vendor does not say which
element it uses; E2M3 has half the error of E3M2 on weights that are normally distributed (a test
measures it), because the scale of a block already brings the range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from compiler.ir.graph import Array, Constant, Graph, Node, value_of
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

BLOCK = 32
"""Elements that share a scale (OCP MX 1.0, section 5.2)."""

_ELEMENT_BITS, _SCALE_BITS = 6, 8
_LARGEST_EXPONENT = 2
_LARGEST = 7.5
_STEP_OF_ONE = 2.0**-3
"""E2M3: exponents up to 2, at most 7.5, three bits behind the point at 1 (OCP MX 1.0, 5.3.2)."""

_SCALES = (-127, 127)
"""Exponents of an E8M0 scale (OCP MX 1.0, section 5.4)."""

_BLOCKS_AT_ONCE = 64
"""assumed: a slice of so many blocks of the inner dimension keeps temporaries far below the
weights' own size."""


@dataclass(frozen=True, slots=True)
class Mxfp6Weights:
    """A `Constant.load`: the values after they were rounded to MXFP6 blocks along an axis.

    It is `compiler.ir.graph.Packed`.
    """

    constant: Constant
    axis: int

    def __call__(self) -> Array:
        """The values, in float32."""
        return rounded(value_of(self.constant), self.axis)

    @property
    def stored_bytes(self) -> int:
        """Bytes of elements and scales; a block at the end may be short, but takes its room."""
        shape = self.constant.type.shape
        blocks = -(-shape[self.axis] // BLOCK)
        lines = prod(shape[: self.axis]) * prod(shape[self.axis + 1 :])
        return lines * blocks * (BLOCK * _ELEMENT_BITS + _SCALE_BITS) // 8


def rounded(values: Array, axis: int) -> Array:
    """Values rounded to MXFP6 blocks along an axis, in float32."""
    result: Array = np.moveaxis(values.astype(np.float32), axis, -1)
    for start in range(0, result.shape[-1], BLOCK * _BLOCKS_AT_ONCE):
        part = result[..., start : start + BLOCK * _BLOCKS_AT_ONCE]
        part[...] = _blocks(part)
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


def _blocks(values: Array) -> Array:
    """Blocks along the last axis; the last one may be short."""
    extent = values.shape[-1]
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -extent % BLOCK)]
    blocks = np.pad(values, padding).reshape(*values.shape[:-1], -1, BLOCK)
    scale = _scales(np.abs(blocks).max(axis=-1, keepdims=True))
    with np.errstate(invalid="ignore", over="ignore"):
        result = _elements(blocks / scale) * scale
    return result.reshape(*values.shape[:-1], -1)[..., :extent]


def _scales(largest: Array) -> Array:
    """The power of two that brings the largest element of a block to the top of E2M3."""
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    # frexp gives a fraction of at least a half: the exponent of the leading bit is one less.
    shared = np.clip(exponent - 1 - _LARGEST_EXPONENT, *_SCALES)
    return np.ldexp(np.float32(1.0), np.where(largest > 0, shared, 0)).astype(np.float32)


def _elements(values: Array) -> Array:
    """Nearest E2M3 numbers, halves to even; beyond 7.5 they saturate."""
    _, exponent = np.frexp(values)
    step = np.ldexp(np.float32(_STEP_OF_ONE), np.clip(exponent - 1, 0, _LARGEST_EXPONENT))
    result: Array = np.clip(np.rint(values / step) * step, -_LARGEST, _LARGEST)
    return result


@dataclass(frozen=True, slots=True)
class Mxfp6:
    """Runs last, and only where the user asks for it: it changes values."""

    name: ClassVar[str] = "mxfp6"

    def run(self, graph: Graph) -> PassResult:
        """Pack the constant float operands of MatMul and Gemm."""
        return rewrite(graph, dict.fromkeys(_PRODUCTS, _pack))


_PRODUCTS = ("MatMul", "MatMulBias", "Gemm")


def _pack(edit: GraphEdit, node: Node) -> None:
    inputs = [_packed(edit, node, 0), _packed(edit, node, 1), *node.inputs[2:]]
    if tuple(inputs) != node.inputs:
        edit.substitute(node, replace(node, inputs=tuple(inputs)))


def _packed(edit: GraphEdit, node: Node, index: int) -> str:
    """The operand, or its packed form where it is a constant matrix of floats."""
    name = node.inputs[index]
    constant = edit.constant(name)
    if constant is None or not constant.type.dtype.is_float or len(constant.type.shape) < 2:
        return name
    if isinstance(constant.load, Mxfp6Weights):
        return name
    turned = node.int("transB" if index else "transA", 0) if node.op == "Gemm" else 0
    inner_is_last = (index == 0) != bool(turned)
    axis = len(constant.type.shape) - (1 if inner_is_last else 2)
    made = Constant(constant.type, Mxfp6Weights(constant, axis))
    return edit.add_constant(f"{name}.mxfp6", made, key=f"{name} mxfp6 {axis}")
