"""Constants that fp16 cannot hold, of which the real tool warns one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Graph, value_of

# assumed: what is looked at in one go, so that large weights are not copied whole.
_PIECE = 1 << 20

_WIDER = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64)
_LARGEST = float(np.finfo(np.float16).max)
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
# Ties go to the even neighbour: half of the smallest becomes 0, half a step above the largest
# becomes infinite.
_ZERO_UP_TO = _SMALLEST / 2
_INFINITE_FROM = _LARGEST + 16


@dataclass(frozen=True, slots=True)
class Losses:
    """Values of a constant that become 0 or the largest of fp16, out of `total`."""

    name: str
    underflows: int
    overflows: int
    total: int

    def __str__(self) -> str:
        parts = []
        if self.underflows:
            parts.append(f"{self.underflows} of {self.total} values underflow to 0")
        if self.overflows:
            parts.append(f"{self.overflows} of {self.total} values overflow, clipped to 65504")
        return f"constant {self.name}: {', '.join(parts)} in fp16"


def fp16_losses(graph: Graph) -> Iterator[Losses]:
    """The floating-point constants that lose values, in the order of the graph."""
    for name, constant in graph.constants.items():
        if constant.type.dtype not in _WIDER:
            continue
        found = _losses(name, value_of(constant))
        if found.underflows or found.overflows:
            yield found


def _losses(name: str, values: Array) -> Losses:
    flat = values.reshape(-1)
    width = np.float64 if values.dtype == np.float64 else np.float32
    underflows = overflows = 0
    for start in range(0, flat.size, _PIECE):
        sizes = np.abs(flat[start : start + _PIECE].astype(width, copy=False))
        underflows += int(np.count_nonzero((sizes <= _ZERO_UP_TO) & (sizes > 0)))
        if sizes.max() >= _INFINITE_FROM or np.isnan(sizes.max()):
            overflows += int(np.count_nonzero((sizes >= _INFINITE_FROM) & np.isfinite(sizes)))
    return Losses(name, underflows, overflows, flat.size)
