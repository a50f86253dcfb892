"""Values as the device holds them: every float in fp16."""

from __future__ import annotations

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, TensorType

FP16_MAX = float(np.finfo(np.float16).max)


def rounded(value: Array) -> Array:
    """Nearest fp16 values, in a float32 array; beyond the range they are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return value.astype(np.float16).astype(np.float32)


def rounded_constant(value: Array) -> Array:
    """As `rounded`, but finite values stay finite: the compiler clips constants to the range."""
    limit = np.where(np.isfinite(value), FP16_MAX, np.inf)
    return rounded(np.clip(value.astype(np.float64), -limit, limit))


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The numpy type of a tensor's elements as the host sees them."""
    if dtype is DType.BFLOAT16 or dtype.is_narrow:
        import ml_dtypes

        other: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, dtype.value))
        return other
    found: np.dtype[np.generic] = np.dtype(dtype.value)
    return found


def held_dtype(type_: TensorType) -> np.dtype[np.generic]:
    """The type in which values are held here: floats in float32, integers in whole bytes."""
    held: np.dtype[np.generic] = np.dtype(np.float32)
    if type_.dtype.is_float:
        return held
    if type_.dtype.is_narrow:
        return np.dtype(np.uint8 if type_.dtype in _UNSIGNED else np.int8)
    return numpy_dtype(type_.dtype)


def narrowed(value: Array, dtype: DType, *, saturates: bool) -> Array:
    """A cast to a narrow type: the values that it has, in the type of `value` still.

    `saturates`: floats beyond its range become its largest, as ONNX's Cast has it by default.
    """
    import ml_dtypes

    target = numpy_dtype(dtype)
    if dtype.is_float and saturates:
        largest = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
        value = np.clip(value.astype(np.float32), -largest, largest)
    return value.astype(target).astype(value.dtype)


_UNSIGNED = frozenset({DType.UINT4, DType.UINT2})
