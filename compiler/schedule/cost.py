"""Nominal cycles, to choose between schedules. Never a measurement: that is the simulator's.

Rates are peaks from the device facts at the NSP's clock, so that this file knows nothing of what
the simulator was fitted to.
"""

from __future__ import annotations

from compiler.schedule.steps import BLOCK
from compiler.target import Sku, device

_STD = device(Sku.STD)
_CYCLES_PER_BLOCK = BLOCK**3 / _STD.hmx_fp16_macs_per_cycle
_DDR_BYTES_PER_CYCLE = _STD.ddr_bytes_per_s / _STD.nsp_max_clock_hz
_DDR_CORE_BYTES_PER_CYCLE = 26e9 / _STD.nsp_max_clock_hz
"""One core alone: BERT-base reads its 170 MB of weights in the published 6.51 ms of one core."""

_NOC_BYTES_PER_CYCLE = _STD.noc_bytes_per_s / _STD.nsp_max_clock_hz

_INSTRUCTIONS_PER_VECTOR = 8
"""assumed: between an add (3) and a softmax (tens)."""


def matrix_cycles(rows: int, inputs: int, outputs: int, repeats: int) -> float:
    """HMX cycles of a product on one core, in whole blocks."""
    blocks = -(-rows // BLOCK) * -(-inputs // BLOCK) * -(-outputs // BLOCK) * repeats
    return blocks * _CYCLES_PER_BLOCK


def read_cycles(size_bytes: int, cores: int) -> float:
    """Cycles to read bytes from DDR, which so many cores share."""
    return size_bytes / min(_DDR_BYTES_PER_CYCLE, cores * _DDR_CORE_BYTES_PER_CYCLE)


def send_cycles(size_bytes: int) -> float:
    """Cycles to move bytes over the on-chip network."""
    return size_bytes / _NOC_BYTES_PER_CYCLE


def vector_cycles(elements: int) -> float:
    """HVX cycles of fp16 elements on one core, with all contexts at work."""
    lanes = _STD.hvx_contexts * _STD.hvx_vector_bytes // 2
    return elements * _INSTRUCTIONS_PER_VECTOR / lanes
