"""What a card draws, and the clock that its power cap leaves.

The energy of an execution is counted from its work: products by their MACs, vector work by busy
cycles, transfers by bytes. What the NSPs do costs more at a higher clock, because it needs a
higher voltage; memory, network and PCIe run at clocks of their own. The NSPs run at their ceiling
unless the card's mean power would then exceed the cap; else at the clock at which it meets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asinh, sinh, sqrt

import numpy as np

from compiler.program import Program, TaskKind
from compiler.target import DeviceSpec
from runtime_sim.device.work import matmul_blocks, vector_cycles
from runtime_sim.timing import TimingParams

_FEMTO = 1e-15
_GHZ = 1e9


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of one execution: of the NSPs at 1 GHz, and of what has a clock of its own."""

    nsp_j: float
    rest_j: float


def energy_of(program: Program, timing: TimingParams) -> Energy:
    """Counted over all cores of the instance; PCIe by the inputs and outputs."""
    tasks = program.tasks
    kind, size = tasks.kind, tasks.w0.astype(np.float64)
    macs = matmul_blocks(tasks, timing) * float(timing.hmx_block**3)
    vector = vector_cycles(tasks, timing)[kind == TaskKind.VECTOR].sum()
    nsp_fj = (
        macs[kind == TaskKind.MATMUL].sum() * timing.hmx_fj_per_mac
        + macs[kind == TaskKind.MATMUL_INT8].sum() * timing.hmx_int8_fj_per_mac
        + float(vector) * timing.hvx_fj_per_cycle
    )
    ddr = size[(kind == TaskKind.READ) | (kind == TaskKind.WRITE)].sum()
    rest_fj = (
        ddr * timing.ddr_fj_per_byte
        + size[tasks.receivers > 0].sum() * timing.noc_fj_per_byte
        + (program.input_bytes + program.output_bytes) * timing.pcie_fj_per_byte
    )
    return Energy(float(nsp_fj) * _FEMTO, float(rest_fj) * _FEMTO)


def power_w(energy: Energy, per_s: float, clock_hz: float, timing: TimingParams) -> float:
    """Mean power of the card at `per_s` executions a second."""
    nsp_j = energy.nsp_j * _rise(clock_hz, timing)
    return timing.static_mw / 1e3 + per_s * (nsp_j + energy.rest_j)


def cap_w(spec: DeviceSpec, timing: TimingParams) -> float:
    """What one SoC, whose rated power `spec` gives, may draw in the long run."""
    return spec.tdp_w * timing.power_cap_permille / 1e3


def clock_within(
    cap: float, energy: Energy, per_s: float, clock_hz: float, timing: TimingParams
) -> float:
    """The clock that meets the cap, if `per_s` at `clock_hz` rises and falls with the clock.

    Never above the ceiling, nor below a tenth of it.
    """
    ceiling_hz = float(timing.nsp_clock_hz)
    a_execution = per_s / (clock_hz / _GHZ)  # executions a second and GHz
    budget = cap - timing.static_mw / 1e3
    rise, linear = timing.voltage_permille / 1e3, energy.nsp_j + energy.rest_j
    linear += energy.rest_j * timing.voltage_permille / 1e3
    # a x (nsp (1 + k x^2) / (1 + k) + rest) = budget, as x^3 + p x = q.
    cubic = a_execution * energy.nsp_j * rise
    if budget <= 0:
        return ceiling_hz / 10
    if cubic * ceiling_hz <= 0:
        return ceiling_hz
    p = a_execution * linear / cubic
    q = budget * (1 + rise) / cubic
    clock = 2 * sqrt(p / 3) * sinh(asinh(1.5 * q / p * sqrt(3 / p)) / 3) * _GHZ
    return min(ceiling_hz, max(clock, ceiling_hz / 10))


def _rise(clock_hz: float, timing: TimingParams) -> float:
    """Energy of the NSPs' work relative to that at 1 GHz."""
    k = timing.voltage_permille / 1e3
    return float((1 + k * (clock_hz / _GHZ) ** 2) / (1 + k))
