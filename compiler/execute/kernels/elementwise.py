"""Operators on each element by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import sqrt

import numpy as np

from compiler.execute.rounding import narrowed
from compiler.execute.work import Work
from compiler.ir.graph import Array

_Function = Callable[..., Array]


def _integer_divide(left: Array, right: Array) -> Array:
    """Toward zero, as in C; a division by zero gives 0."""
    safe = np.where(right == 0, np.ones_like(right), right)
    quotient = np.floor_divide(left, safe)
    inexact = quotient * safe != left
    rounded = quotient + (inexact & ((left < 0) != (safe < 0))).astype(left.dtype)
    return np.where(right == 0, np.zeros_like(quotient), rounded)


def _divide(work: Work, left: Array, right: Array) -> Array:
    return left / right if left.dtype.kind == "f" else _integer_divide(left, right)


def _mod(work: Work, left: Array, right: Array) -> Array:
    return np.asarray((np.fmod if work.node.int("fmod", 0) else np.mod)(left, right))


def _power(work: Work, left: Array, right: Array) -> Array:
    if left.dtype.kind == "f":
        return np.asarray(np.power(left, right.astype(left.dtype)))
    exact = np.power(left.astype(np.float64), right.astype(np.float64))
    return np.asarray(exact.astype(left.dtype))


def erf(value: Array) -> Array:
    """The error function to 1.2e-7, by Numerical Recipes' Chebyshev fit (erfccheb, low order)."""
    positive = np.abs(value.astype(np.float64))
    t = 1 / (1 + 0.5 * positive)
    poly = np.zeros_like(t)
    for coefficient in _ERFC:
        poly = poly * t + coefficient
    result = 1 - t * np.exp(-positive * positive + poly)
    return np.asarray(np.where(value < 0, -result, result), dtype=value.dtype)


# Numerical Recipes in C, 2nd edition, section 6.2 (erfcc), highest power first.
_ERFC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


def _gelu(work: Work, value: Array) -> Array:
    if work.node.str("approximate", "none") == "tanh":
        inner = sqrt(2 / np.pi) * (value + 0.044715 * value**3)
        return np.asarray(0.5 * value * (1 + np.tanh(inner)))
    return np.asarray(0.5 * value * (1 + erf(value * np.float32(sqrt(0.5)))))


def sigmoid(value: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * value)), dtype=value.dtype)


def _softplus(value: Array) -> Array:
    return np.asarray(np.logaddexp(np.zeros((), value.dtype), value))


def _clip(work: Work) -> Array:
    value = work.operand(0)
    low, high = work.node.attributes.get("min"), work.node.attributes.get("max")
    low = work.all_of(1) if work.has(1) else low
    high = work.all_of(2) if work.has(2) else high
    if low is not None:
        value = np.maximum(value, np.asarray(low, value.dtype))
    return value if high is None else np.minimum(value, np.asarray(high, value.dtype))


def _cast(work: Work) -> Array:
    value = work.operand(0)
    if work.dtype.kind == "b":
        return np.asarray(value != 0)
    if work.made.dtype.is_narrow:
        value = narrowed(value, work.made.dtype, saturates=bool(work.node.int("saturate", 1)))
    return value.astype(work.dtype)


def _range(work: Work) -> Array:
    start, step = work.all_of(0), work.all_of(2)
    return np.asarray(start + np.arange(*work.box[0]) * step)


def _bit_cast(work: Work) -> Array:
    return np.ascontiguousarray(work.operand(0)).view(work.dtype)


def _prelu(work: Work, value: Array, slope: Array) -> Array:
    return np.where(value < 0, value * slope, value)


def _selu(work: Work, value: Array) -> Array:
    alpha = work.node.float("alpha", 1.67326319217681884765625)
    gamma = work.node.float("gamma", 1.05070102214813232421875)
    return np.asarray(gamma * np.where(value > 0, value, alpha * np.expm1(np.minimum(value, 0))))


def _elu(work: Work, value: Array) -> Array:
    alpha = work.node.float("alpha", 1.0)
    return np.where(value > 0, value, alpha * np.expm1(np.minimum(value, 0)))


def _celu(work: Work, value: Array) -> Array:
    alpha = work.node.float("alpha", 1.0)
    return np.where(value > 0, value, alpha * np.expm1(np.minimum(value, 0) / alpha))


def _leaky(work: Work, value: Array) -> Array:
    return np.where(value < 0, work.node.float("alpha", 0.01) * value, value)


def _thresholded(work: Work, value: Array) -> Array:
    return np.where(value > work.node.float("alpha", 1.0), value, 0)


def _hard_sigmoid(work: Work, value: Array) -> Array:
    alpha, beta = work.node.float("alpha", 0.2), work.node.float("beta", 0.5)
    return np.clip(alpha * value + beta, 0, 1)


def _swish(work: Work, value: Array) -> Array:
    return value * sigmoid(work.node.float("alpha", 1.0) * value)


def _shrink(work: Work, value: Array) -> Array:
    bias, limit = work.node.float("bias", 0.0), work.node.float("lambd", 0.5)
    low = np.where(value < -limit, value + bias, 0)
    return np.where(value > limit, value - bias, low)


def _round(value: Array) -> Array:
    return np.asarray(np.rint(value))


def _mean(work: Work, *values: Array) -> Array:
    return np.asarray(reduce(np.add, values) / len(values))


_PLAIN: dict[str, _Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Abs": np.abs,
    "Relu": lambda value: np.maximum(value, np.zeros((), value.dtype)),
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Not": np.logical_not,
    "Where": np.where,
    "Sqrt": np.sqrt,
    "Reciprocal": lambda value: 1 / value,
    "Exp": np.exp,
    "Log": np.log,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Tanh": np.tanh,
    "Erf": erf,
    "Sigmoid": sigmoid,
    "Silu": lambda value: value * sigmoid(value),
    "HardSwish": lambda value: value * np.clip(value / 6 + 0.5, 0, 1),
    "Softplus": _softplus,
    "Softsign": lambda value: value / (1 + np.abs(value)),
    "Mish": lambda value: value * np.tanh(_softplus(value)),
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": _round,
    "Sign": np.sign,
    "IsNaN": np.isnan,
    "Max": lambda *values: reduce(np.maximum, values),
    "Min": lambda *values: reduce(np.minimum, values),
    "Sum": lambda *values: reduce(np.add, values),
}

_WITH_ATTRIBUTES: dict[str, _Function] = {
    "Div": _divide,
    "Mod": _mod,
    "Pow": _power,
    "Gelu": _gelu,
    "PRelu": _prelu,
    "Selu": _selu,
    "Elu": _elu,
    "Celu": _celu,
    "LeakyRelu": _leaky,
    "ThresholdedRelu": _thresholded,
    "HardSigmoid": _hard_sigmoid,
    "Swish": _swish,
    "Shrink": _shrink,
    "Mean": _mean,
}


def plain(function: _Function) -> Callable[[Work], Array]:
    """A kernel that applies a function to the operands' parts."""
    return lambda work: function(*work.operands())


def with_attributes(function: _Function) -> Callable[[Work], Array]:
    """A kernel whose function also sees the node's attributes."""
    return lambda work: function(work, *work.operands())


KERNELS: dict[str, Callable[[Work], Array]] = {
    **{name: plain(function) for name, function in _PLAIN.items()},
    **{name: with_attributes(function) for name, function in _WITH_ATTRIBUTES.items()},
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "BitCast": _bit_cast,
    "Range": _range,
}
