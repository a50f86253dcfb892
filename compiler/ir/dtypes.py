"""Element types of tensors.

A float narrower than fp16 is held in fp16, which has all of its values; an integer narrower than
a byte takes a byte. FLOAT8E8M0 is missing: its range is far beyond that of fp16.
"""

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
    FLOAT8E4M3FN = "float8_e4m3fn"
    FLOAT8E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8E5M2 = "float8_e5m2"
    FLOAT8E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT4E2M1 = "float4_e2m1fn"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"
    STRING = "str"

    # Members are single objects. Enum's own hash goes by the name, and types are often keys.
    __hash__ = object.__hash__

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in memory (a string counts as 0: it never reaches the device)."""
        return _SIZE_BYTES[self]

    @property
    def file_bits(self) -> int:
        """Bits of one element in a model file, where several share a byte."""
        return _PACKED_BITS.get(self, 8 * self.size_bytes)

    @property
    def is_narrow(self) -> bool:
        """Whether a cast to it must round or wrap to fewer bits than it is held in."""
        return self in _FLOATS_OF_8_BITS or self in _PACKED_BITS

    @property
    def is_float(self) -> bool:
        """Whether the device computes on it in floating point."""
        return self in _FLOATS


_FLOATS_OF_8_BITS = frozenset(
    {DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ}
)
_PACKED_BITS = {
    DType.FLOAT4E2M1: 4,
    DType.INT4: 4,
    DType.UINT4: 4,
    DType.INT2: 2,
    DType.UINT2: 2,
}
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
    **dict.fromkeys((*_FLOATS_OF_8_BITS, *_PACKED_BITS), 1),
}
_FLOATS = _FLOATS_OF_8_BITS | {
    DType.FLOAT32,
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT64,
    DType.FLOAT4E2M1,
}
