"""Values as the device holds them: every float in fp16."""

from __future__ import annotations

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array

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

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype.value)
