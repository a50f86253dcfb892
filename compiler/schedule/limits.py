"""The room that a schedule may use, as the device has it and the options narrow it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.options import CompileOptions
from compiler.target import DeviceSpec

KIB = 1 << 10

STREAM_BYTES = 512 * KIB
"""Bytes of one tile of a tensor that passes through VTCM because it does not fit whole: the lower
end of the vendor's size-split-granularity (512 to 2048 KiB)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Room on each core: `working_set_bytes` is what one group of operations may touch of it.

    `stream_bytes` is the largest tile of a tensor that does not fit. A buffer stays reserved for
    `dealloc_delay` groups after its last use.
    """

    vtcm_bytes: int
    working_set_bytes: int
    stream_bytes: int = STREAM_BYTES
    dealloc_delay: int = 0


def limits_of(options: CompileOptions, device: DeviceSpec) -> Limits:
    """What `options` leave of a core of `device`."""
    vtcm = device.vtcm_usable_bytes
    ratio = options.vtcm_working_set_limit_ratio
    granularity = options.size_split_granularity_kib
    return Limits(
        vtcm,
        vtcm if ratio is None else int(vtcm * ratio),
        STREAM_BYTES if granularity is None else granularity * KIB,
        options.allocator_dealloc_delay or 0,
    )
