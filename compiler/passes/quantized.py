"""Quantised values in the IR: the schemes that say what their integers stand for.

`aic::Quantize(x)` and `aic::Dequantize(q)` carry their scheme as attributes, so that scales keep
float32 where every other constant is rounded to fp16: `scale` and `zero_point` hold one number or
one for each element along `axis`. value = (q - zero_point) * scale; quantising rounds halves to
even and saturates (ONNX, QuantizeLinear).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, AttributeValue, Constant, Node, TensorType, value_of
from compiler.passes.edit import GraphEdit

BYTES = frozenset({DType.INT8, DType.UINT8})
"""What the tensor unit multiplies."""

_INTEGERS = BYTES | {DType.INT16, DType.UINT16, DType.INT32}


@dataclass(frozen=True, slots=True)
class Scheme:
    """Scales and zero points, one of each or one for each element along `axis`."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int

    @property
    def is_uniform(self) -> bool:
        """Whether one scale and one zero point hold for the whole tensor."""
        return len(self.scales) == 1

    def attributes(self) -> Mapping[str, AttributeValue]:
        """As Quantize and Dequantize carry it."""
        return {"scale": self.scales, "zero_point": self.zeros, "axis": self.axis}

    def values(self, quantised: Array) -> Array:
        """What a whole tensor of integers stands for, in float32."""
        shape = [1] * quantised.ndim
        if not self.is_uniform:
            shape[self.axis] = -1
        zeros = np.asarray(self.zeros, np.float32).reshape(shape)
        scales = np.asarray(self.scales, np.float32).reshape(shape)
        return (quantised.astype(np.float32) - zeros) * scales


def scheme_of(node: Node) -> Scheme:
    """The scheme that a Quantize or Dequantize carries."""
    scales = node.attributes["scale"]
    assert isinstance(scales, tuple)
    return Scheme(
        tuple(float(scale) for scale in scales), node.ints("zero_point"), node.int("axis", 0)
    )


def constant_scheme(edit: GraphEdit, node: Node) -> Scheme | None:
    """The scheme of a QuantizeLinear or DequantizeLinear; `None` where it is no constant one.

    None either where blocks of a tensor have scales of their own, or it holds other than integers
    of 8, 16 or 32 bits.
    """
    quantised = node.outputs[0] if node.op == "QuantizeLinear" else node.inputs[0]
    scale = edit.constant(node.inputs[1])
    zero = edit.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    is_known = scale is not None and (zero is not None or not any(node.inputs[2:3]))
    if scale is None or not is_known or edit.type(quantised).dtype not in _INTEGERS:
        return None
    shape, axis = edit.shape(quantised), node.int("axis", 1)
    if node.int("block_size", 0) or len(scale.type.shape) > 1:
        return None
    scales = tuple(float(value) for value in value_of(scale).reshape(-1))
    if len(scales) > 1 and (not -len(shape) <= axis < len(shape) or shape[axis] != len(scales)):
        return None
    zeros = (0,) * len(scales)
    if zero is not None:
        zeros = tuple(int(value) for value in value_of(zero).reshape(-1))
        zeros = zeros * (len(scales) // len(zeros))  # one may stand for all
    return Scheme(scales, zeros, axis % len(shape) if len(scales) > 1 else 0)


def dequantising(edit: GraphEdit, name: str) -> Node | None:
    """The Dequantize that makes a value."""
    return edit.producer(name, "Dequantize")


@dataclass(frozen=True, slots=True)
class Dequantised:
    """A `Constant.load`: what a constant of integers stands for."""

    constant: Constant
    scheme: Scheme

    def __call__(self) -> Array:
        """The values, in float32."""
        return self.scheme.values(value_of(self.constant))


@dataclass(frozen=True, slots=True)
class Rearranged:
    """A `Constant.load`: a constant with its axes in another order, or under another shape."""

    constant: Constant
    perm: tuple[int, ...]
    shape: tuple[int, ...]

    def __call__(self) -> Array:
        """The values."""
        value = value_of(self.constant)
        return (value.transpose(self.perm) if self.perm else value).reshape(self.shape)


def transposed(edit: GraphEdit, name: str, constant: Constant, perm: tuple[int, ...]) -> str:
    """A constant with its axes in another order; gives its name."""
    shape = tuple(constant.type.shape[axis] for axis in perm)
    made = Constant(TensorType(constant.type.dtype, shape), Rearranged(constant, perm, shape))
    return edit.add_constant(f"{name}.transposed", made, key=f"{name} transposed {perm}")


def reshaped(edit: GraphEdit, name: str, constant: Constant, shape: tuple[int, ...]) -> str:
    """A constant under another shape; gives its name."""
    made = Constant(TensorType(constant.type.dtype, shape), Rearranged(constant, (), shape))
    return edit.add_constant(f"{name}.reshaped", made, key=f"{name} as {shape}")
