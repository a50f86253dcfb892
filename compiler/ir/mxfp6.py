"""MXFP6: blocks of 32 six-bit floats with one scale.

OCP Microscaling Formats (MX) 1.0: an element is E2M3 or E3M2, the scale of a block is a power of
two in 8 bits, and 32 elements along the inner dimension share it. The vendor does not say which
element it uses; E2M3 has half the error of E3M2 on weights that are normally distributed (a test
measures it), because the scale of a block already brings the range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.ir.graph import Array, Constant, value_of

BLOCK = 32
"""Elements that share a scale (OCP MX 1.0, section 5.2)."""

_ELEMENT_BITS, _SCALE_BITS = 6, 8
_LARGEST_EXPONENT = 2
_LARGEST = 7.5
_STEP_OF_ONE = 2.0**-3
"""E2M3: exponents up to 2, at most 7.5, three bits behind the point at 1 (OCP MX 1.0, 5.3.2)."""

_SCALES = (-127, 127)
"""Exponents of an E8M0 scale (OCP MX 1.0, section 5.4)."""

_BLOCK_BYTES = (BLOCK * _ELEMENT_BITS + _SCALE_BITS) // 8
_SCALE_BIAS = 127
_LINES_AT_ONCE = 512
"""assumed: a few megabytes of temporaries for weights of usual size."""

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
        return packed_bytes(self.constant.type.shape, self.axis)

    def packed(self) -> Iterator[bytes]:
        """The blocks, line after line along the axis, a few lines at a time."""
        lines = np.moveaxis(self(), self.axis, -1)
        lines = lines.reshape(-1, lines.shape[-1])
        for start in range(0, len(lines), _LINES_AT_ONCE):
            yield _packed(lines[start : start + _LINES_AT_ONCE])


def packed_bytes(shape: tuple[int, ...], axis: int) -> int:
    """Bytes of a tensor that is packed along an axis."""
    blocks = -(-shape[axis] // BLOCK)
    return prod(shape[:axis]) * prod(shape[axis + 1 :]) * blocks * _BLOCK_BYTES


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


def _packed(lines: Array) -> bytes:
    """Whole lines of rounded values: a byte of scale and 24 of elements for each block."""
    padding = [(0, 0), (0, -lines.shape[1] % BLOCK)]
    blocks = np.pad(lines, padding).reshape(-1, BLOCK)
    scale = _scales(np.abs(blocks).max(axis=-1, keepdims=True))
    _, exponent = np.frexp(scale)
    # frexp of a power of two gives a half times the next one.
    scales = (exponent - 1 + _SCALE_BIAS).astype(np.uint8)
    bits = np.unpackbits(_codes(blocks / scale)[..., None], axis=-1, bitorder="little")
    elements = bits[..., :_ELEMENT_BITS].reshape(len(blocks), -1)
    return np.hstack([scales, np.packbits(elements, axis=-1, bitorder="little")]).tobytes()


def _codes(values: Array) -> Array:
    """E2M3 numbers as bits: sign, two of exponent, three of mantissa."""
    size = np.abs(values)
    _, exponent = np.frexp(size)
    octave = np.clip(exponent - 1, 0, _LARGEST_EXPONENT)
    # Codes count up in steps: below 1 and from there on eighths, then quarters, then halves.
    code = size / (_STEP_OF_ONE * 2.0**octave) + 8 * octave
    result: Array = code.astype(np.uint8) | (np.signbit(values).astype(np.uint8) << 5)
    return result


def unpacked(data: bytes, shape: tuple[int, ...], axis: int) -> Array:
    """The values of `packed_bytes` bytes, in float32."""
    lines = [*shape[:axis], *shape[axis + 1 :]]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, _BLOCK_BYTES)
    bits = np.unpackbits(blocks[:, 1:], axis=-1, bitorder="little")
    codes = np.packbits(
        bits.reshape(len(blocks), BLOCK, _ELEMENT_BITS), axis=-1, bitorder="little"
    )
    scale = np.ldexp(np.float32(1.0), blocks[:, :1].astype(np.int32) - _SCALE_BIAS)
    values = (_NUMBERS[codes[..., 0]] * scale).reshape(*lines, -1)[..., : shape[axis]]
    return np.ascontiguousarray(np.moveaxis(values, -1, axis))


def _number(code: int) -> float:
    octave, step = max((code & 31) // 8 - 1, 0), code & 31
    size = (step - 8 * octave) * _STEP_OF_ONE * 2.0**octave
    return -size if code & 32 else size


_NUMBERS = np.array([_number(code) for code in range(64)], np.float32)
