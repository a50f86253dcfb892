"""Integers that stand for floats: exact sums of products, and the way from and to floats.

Sums are formed in float64, which holds every sum of 8-bit products up to 2**37 terms exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from compiler.execute.kernels import products
from compiler.execute.work import Work
from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Node
from compiler.regions import Box

_X_ZERO_POINT, _X_SCALE = 3, 4


def _conv(work: Work) -> Array | None:
    return _product(work, "Conv", 1, 0)


def _matmul(work: Work) -> Array | None:
    return _product(work, "MatMul", len(work.shape) - 1, -1)


def _product(work: Work, op: str, axis: int, w_axis: int) -> Array | None:
    """The result of a product; `w_axis` is the channel axis of the weights, `axis` of the sum."""
    zero = _number(work, _X_ZERO_POINT, work.node.float("x_zero_point", 0))
    zeros = _numbers(work.node, "w_zero_point", 0.0)
    rank = len(work.type(1).shape)

    def read(index: int, box: Box) -> Array:
        values = work.read(index, box).astype(np.float64)
        return values - (_along(zeros, box[w_axis], w_axis % rank, rank) if index else zero)

    node = replace(work.node, op=op, domain="", inputs=work.node.inputs[:2])
    total = products.KERNELS[op](replace(work, node=node, read=read))
    return None if total is None else _given(work, total, axis)


def _given(work: Work, total: Array, axis: int) -> Array:
    """What a product makes of the sum, in the type of its output."""
    rank = len(work.shape)
    if work.has(2):
        bias = work.operand(2).astype(np.float64)
        total = total + (bias.reshape(-1, *(1 for _ in work.shape[2:])) if axis == 1 else bias)
    if work.made.dtype is DType.INT32:
        return total.astype(np.int64).astype(np.int32)
    ends = work.box[axis] if rank else (0, 1)
    at = max(axis, 0)
    scales = _along(_numbers(work.node, "scale", 1.0), ends, at, rank)
    value = total * scales * _number(work, _X_SCALE, 1.0)
    value = value + _along(_numbers(work.node, "offset", 0.0), ends, at, rank)
    if work.made.dtype.is_float:
        return value.astype(np.float32)
    value = np.clip(value, work.node.float("low", -inf), work.node.float("high", inf))
    zero = work.node.int("y_zero_point", 0)
    return _saturated(np.rint(value / work.node.float("y_scale", 1.0)) + zero, work)


def _quantize(work: Work) -> Array:
    zeros, scales = _scheme(work)
    return _saturated(np.rint(work.operand(0) / scales) + zeros, work)


def _dequantize(work: Work) -> Array:
    zeros, scales = _scheme(work)
    return (work.operand(0).astype(np.float32) - zeros) * scales


def _scheme(work: Work) -> tuple[Array, Array]:
    """Zero points and scales in float32, to be broadcast against the box."""
    axis, rank = work.node.int("axis", 0), len(work.shape)
    ends = work.box[axis] if rank else (0, 1)
    zeros = _along(_numbers(work.node, "zero_point", 0.0), ends, axis, rank)
    scales = _along(_numbers(work.node, "scale", 1.0), ends, axis, rank)
    return zeros.astype(np.float32), scales.astype(np.float32)


def _quantize_linear(work: Work) -> Array | None:
    found = _linear(work)
    if found is None or work.dtype.kind not in "iu" or work.made.dtype.is_narrow:
        return None
    zeros, scales = found
    return _saturated(np.rint(work.operand(0) / scales) + zeros, work)


def _dequantize_linear(work: Work) -> Array | None:
    found = _linear(work)
    if found is None:
        return None
    zeros, scales = found
    return (work.operand(0).astype(np.float32) - zeros) * scales


def _linear(work: Work) -> tuple[Array, Array] | None:
    """Zero points and scales given as operands; `None` where blocks have their own."""
    rank, count = len(work.shape), work.type(1).elements
    if work.node.int("block_size", 0) or len(work.type(1).shape) > 1:
        return None
    axis = work.node.int("axis", 1) % max(rank, 1) if count > 1 else 0
    ends = work.box[axis] if rank else (0, 1)
    zeros = work.all_of(2).reshape(-1) if work.has(2) else np.zeros(1)
    scales = work.all_of(1).reshape(-1)
    return (
        _along(zeros.astype(np.float32), ends, axis, rank),
        _along(scales.astype(np.float32), ends, axis, rank),
    )


def _saturated(values: Array, work: Work) -> Array:
    bounds = np.iinfo(work.dtype.name)
    values = np.nan_to_num(values, nan=0.0, posinf=bounds.max, neginf=bounds.min)
    return np.clip(values, bounds.min, bounds.max).astype(work.dtype)


def _number(work: Work, index: int, otherwise: float) -> float:
    """A scalar that comes at run time, if it does."""
    return float(work.all_of(index).reshape(-1)[0]) if work.has(index) else otherwise


def _numbers(node: Node, name: str, otherwise: float) -> Array:
    return np.asarray(node.attributes.get(name, (otherwise,)), np.float64).reshape(-1)


def _along(numbers: Array, ends: tuple[int, int], axis: int, rank: int) -> Array:
    """The numbers of a range of an axis, or the one for all, to be broadcast."""
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return numbers[slice(*ends)].reshape(shape)


KERNELS: dict[str, Callable[[Work], Array | None]] = {
    "QuantizedConv": _conv,
    "QuantizedMatMul": _matmul,
    "Quantize": _quantize,
    "Dequantize": _dequantize,
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
}
