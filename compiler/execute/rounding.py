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
    if dtype is DType.BFLOAT16:
        import ml_dtypes

        bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    found: np.dtype[np.generic] = np.dtype(dtype.value)
    return found


def held_dtype(type_: TensorType) -> np.dtype[np.generic]:
    """The type in which a tensor's values are held here: floats in float32."""
    held: np.dtype[np.generic] = np.dtype(np.float32)
    return held if type_.dtype.is_float else numpy_dtype(type_.dtype)
