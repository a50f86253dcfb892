"""Power and clock: counted by hand, held against published points, consistent with the cap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from runtime_sim.device.power import Energy, cap_w, clock_within, energy_of, power_w
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder, programs
from tests.runtime_sim.test_closed_forms import GB, PLAIN

STD = device(Sku.STD)
FEMTO = 1e-15


def test_the_energy_of_an_execution_is_that_of_its_work() -> None:
    builder = ProgramBuilder(num_cores=2, input_bytes=1_000, output_bytes=500)
    builder.matmul(33, 64, 96)  # 2 x 2 x 3 blocks of 32 x 32 x 32 MACs
    builder.vector(5_000, VectorOp.ADD)  # a cycle an element in these timings
    builder.read(7_000)
    builder.send(3_000, receivers=1)
    timing = replace(
        PLAIN,
        hmx_fj_per_mac=2,
        hvx_fj_per_cycle=3,
        ddr_fj_per_byte=5,
        noc_fj_per_byte=7,
        pcie_fj_per_byte=11,
    )
    found = energy_of(builder.build(), timing)
    assert found.nsp_j == pytest.approx((12 * 32**3 * 2 + 5_000 * 3) * FEMTO)
    assert found.rest_j == pytest.approx((7_000 * 5 + 3_000 * 7 + 1_500 * 11) * FEMTO)


@pytest.mark.parametrize(("clock_mhz", "tops_per_w"), [(568, 12.4), (751, 9.98), (1385, 5.24)])
def test_energy_rises_with_the_clock_as_published(clock_mhz: int, tops_per_w: float) -> None:
    """Three points of the die (wikichip, Hot Chips 33), relative to their geometric mean."""
    points = {568: 12.4, 751: 9.98, 1385: 5.24}
    published = 1 / tops_per_w / (12.4 * 9.98 * 5.24) ** (-1 / 3)
    # The whole power is taken to rise like that of the NSPs.
    timing, one = replace(CALIBRATED, static_mw=0), Energy(1.0, 0.0)
    rise = {mhz: power_w(one, 1.0, mhz * 1e6, timing) for mhz in points}
    mean = (rise[568] * rise[751] * rise[1385]) ** (1 / 3)
    assert rise[clock_mhz] / mean == pytest.approx(published, rel=0.05)


@given(
    nsp_j=st.floats(1e-4, 1.0),
    rest_j=st.floats(0.0, 0.05),
    per_s=st.floats(1.0, 5_000.0),
    clock_mhz=st.integers(300, 1450),
)
def test_the_clock_within_the_cap_meets_it(
    nsp_j: float, rest_j: float, per_s: float, clock_mhz: int
) -> None:
    energy, cap = Energy(nsp_j, rest_j), cap_w(STD, CALIBRATED)
    clock = clock_within(cap, energy, per_s, clock_mhz * 1e6, CALIBRATED)
    drawn = power_w(energy, per_s * clock / (clock_mhz * 1e6), clock, CALIBRATED)
    if clock == CALIBRATED.nsp_clock_hz:
        assert drawn <= cap * (1 + 1e-9)
    elif clock > CALIBRATED.nsp_clock_hz / 10:
        assert drawn == pytest.approx(cap)
    else:
        assert drawn >= cap * (1 - 1e-9)


def test_products_on_all_cores_run_at_the_cap_and_below_the_ceiling() -> None:
    """The rating: 110 TFLOPS in fp16 are 954 MHz on 14 NSPs, where HMX never waits."""
    builder = ProgramBuilder()
    for _ in range(50):
        builder.matmul(1024, 1024, 1024)
    timing = replace(
        CALIBRATED, hmx_efficiency_permille=1000, hmx_task_cycles=0, power_cap_permille=1000
    )
    measured = SimulatorBackend(STD, timing).run(
        builder.build(), RunOptions(instances=14, set_size=4)
    )
    assert measured.power_w == pytest.approx(75, rel=1e-3)
    assert measured.clock_hz == pytest.approx(954e6, rel=0.02)


def test_a_memory_bound_program_runs_at_the_ceiling() -> None:
    builder = ProgramBuilder()
    for _ in range(50):
        builder.read(1_000_000)
    measured = SimulatorBackend(STD).run(builder.build(), RunOptions(instances=14))
    assert measured.clock_hz == CALIBRATED.nsp_clock_hz
    assert measured.power_w is not None
    assert measured.power_w < cap_w(STD, CALIBRATED)


def test_an_soc_of_four_has_its_own_rated_power() -> None:
    """A card of 150 W with four of them: 37.5 W each, capped like one of 75 W at 66."""
    ultra = device(Sku.ULTRA)
    assert cap_w(ultra, CALIBRATED) == pytest.approx(37.5 * CALIBRATED.power_cap_permille / 1e3)
    builder = ProgramBuilder(sku=Sku.ULTRA)
    builder.read(1_000_000)
    measured = SimulatorBackend(ultra).run(builder.build(), RunOptions(instances=1))
    assert measured.clock_hz == CALIBRATED.nsp_clock_hz


@given(program=programs(), instances=st.integers(1, 7), set_size=st.integers(1, 4))
def test_no_run_exceeds_the_cap(program: Program, instances: int, set_size: int) -> None:
    assume(program.options.num_cores * instances <= STD.nsps)
    timing = replace(CALIBRATED, hmx_fj_per_mac=100_000, hvx_fj_per_cycle=40_000_000)
    options = RunOptions(instances=instances, set_size=set_size)
    measured = SimulatorBackend(STD, timing).run(program, options)
    assert measured.power_w is not None
    assert measured.clock_hz is not None
    if measured.clock_hz > timing.nsp_clock_hz * 0.101:
        assert measured.power_w <= cap_w(STD, timing) * (1 + 1e-3)
    joules = measured.joules_per_inference
    assert joules == pytest.approx(measured.power_w / measured.inferences_per_s)


def test_compute_time_follows_the_clock() -> None:
    builder = ProgramBuilder()
    builder.matmul(320, 320, 320)
    fast, slow = (
        SimulatorBackend(STD, replace(PLAIN, nsp_clock_hz=clock)).steady(
            builder.build(), RunOptions(instances=1, set_size=1)
        )
        for clock in (GB, GB // 2)
    )
    assert fast.execution is not None
    assert slow.execution is not None
    assert slow.execution.duration_ps == 2 * fast.execution.duration_ps
