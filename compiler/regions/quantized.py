"""Products of integers: as those of floats, with zero points and scales beside the operands."""

from __future__ import annotations

from compiler.regions import products, windows
from compiler.regions.asked import Asked
from compiler.regions.box import Box

_LAST_BY_CHANNEL = 2
"""Behind the bias come scalars."""


def conv(asked: Asked) -> Box | None:
    """QuantizedConv."""
    return windows.conv(asked) if asked.index <= _LAST_BY_CHANNEL else None


def conv_integer(asked: Asked) -> Box | None:
    """ConvInteger, which has zero points where a Conv has its bias."""
    return windows.conv(asked) if asked.index < _LAST_BY_CHANNEL else None


def matmul(asked: Asked) -> Box | None:
    """QuantizedMatMul."""
    return products.matmul(asked) if asked.index <= _LAST_BY_CHANNEL else None


def matmul_integer(asked: Asked) -> Box | None:
    """MatMulInteger, with zero points behind the operands."""
    return products.matmul(asked) if asked.index < _LAST_BY_CHANNEL else None
