"""Element types of tensors."""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """An element type; the value is its numpy name."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    STRING = "str"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element (a string counts as 0: it never reaches the device)."""
        return _SIZE_BYTES[self]

    @property
    def is_float(self) -> bool:
        """Whether the device computes on it in floating point."""
        return self in _FLOATS


_SIZE_BYTES = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT64: 8,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.UINT8: 1,
    DType.UINT16: 2,
    DType.UINT32: 4,
    DType.UINT64: 8,
    DType.BOOL: 1,
    DType.STRING: 0,
}
_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64})
