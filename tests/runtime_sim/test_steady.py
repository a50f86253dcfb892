"""Instances side by side: exact where that is known, bounded and reproducing itself elsewhere.

Oracles: the event loop that knows nothing of steady states (`SimulatorBackend.record`), and closed
forms derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from runtime_sim.device.execution import execute
from runtime_sim.device.work import DDR, NOC, TOTAL, bytes_per_s, prepare_tasks, server_rows
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.steady import F64, Surroundings, settle
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder, programs
from tests.runtime_sim.test_closed_forms import GB, PLAIN

STD = device(Sku.STD)
SERVERS = server_rows(STD, CALIBRATED)
ALONE = st.builds(
    RunOptions,
    instances=st.just(1),
    set_size=st.integers(1, 5),
    inferences=st.integers(1, 6),
    threads_per_queue=st.integers(1, 4),
)
BESIDE = st.builds(RunOptions, instances=st.integers(2, 7), set_size=st.integers(1, 5))


@given(program=programs(), options=ALONE)
def test_one_instance_is_simulated_to_the_tick(program: Program, options: RunOptions) -> None:
    """Following tasks without events gives what an event for each of them gives."""
    backend = SimulatorBackend(STD)
    steady, recorded = backend.steady(program, options), backend.record(program, options)
    last = recorded.warmup + options.inferences
    mine = steady.recording
    for got, expected in (
        (mine.asked_at, recorded.asked_at),
        (mine.begun_at, recorded.begun_at),
        (mine.ended_at, recorded.ended_at),
        (mine.done_at, recorded.done_at),
    ):
        np.testing.assert_array_equal(got[:, :last], expected[:, :last])


@given(program=programs())
def test_tasks_keep_their_order_and_their_dependencies(program: Program) -> None:
    tasks = prepare_tasks(program, CALIBRATED, merge_runs=False)
    run = execute(tasks, SERVERS, (0, 0))
    for first, end in tasks.queues[:2].T:
        row = tasks.lists[first:end]
        assert np.all(run.begun[row[1:]] >= run.freed[row[:-1]])
    contract = program.tasks
    for number in range(len(contract)):
        first, end = contract.after_start[number : number + 2]
        for earlier in contract.after[first:end]:
            same_queue = tasks.task[earlier, 4] == tasks.task[number, 4]
            done = run.freed if same_queue and tasks.task[earlier, 1] < 0 else run.ended
            assert run.begun[number] >= done[earlier]
    assert run.duration_ps == run.ended.max()


@given(program=programs(), options=BESIDE)
def test_no_server_gives_more_than_it_has(program: Program, options: RunOptions) -> None:
    """Whatever the instances show each other, together they stay within each rate."""
    if program.options.num_cores * options.instances > STD.nsps:
        return
    backend = SimulatorBackend(STD)
    steady = backend.steady(program, options)
    together = steady.bytes_per_s * options.instances
    # The settled background is found to about 1e-5 transfers; a rate follows it at most in
    # proportion.
    assert np.all(together <= bytes_per_s(SERVERS[:, TOTAL]) * (1 + 1e-3))


@given(program=programs(), options=BESIDE)
def test_the_background_reproduces_itself(program: Program, options: RunOptions) -> None:
    if program.options.num_cores * options.instances > STD.nsps or program.stage_cores:
        return
    backend = SimulatorBackend(STD)
    steady = backend.steady(program, options)
    others = options.instances - 1
    background = [round(float(mean) * others * 2**20) for mean in steady.flying]
    assert steady.execution is not None
    again = execute(
        prepare_tasks(program, CALIBRATED), SERVERS, (background[DDR], background[NOC])
    )
    assert again.duration_ps == pytest.approx(steady.execution.duration_ps, rel=1e-3)


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_readers_without_pause_share_ddr_exactly(instances: int) -> None:
    """Each instance has four cores that do nothing but read: n of 4 I transfers at any time."""
    builder = ProgramBuilder(num_cores=2)
    for core in range(2):
        for _ in range(200):
            builder.read(1_000_000, core=core)
    timing = replace(PLAIN, ddr_core_bytes_per_s=100 * GB)
    backend = SimulatorBackend(STD, timing)
    measured = backend.run(builder.build(), RunOptions(instances=instances, set_size=4))
    assert measured.inferences_per_s == pytest.approx(100 * GB / 400e6, rel=1e-4)
    assert measured.busy.ddr == pytest.approx(1, rel=1e-4)


def test_a_rare_reader_sees_the_mean_of_the_others() -> None:
    """A core computes for c and reads for d, d (1 + a) beside one like it of mean a."""
    builder = ProgramBuilder()
    load = builder.read(1_000_000)  # 10 us at 100 GB/s
    builder.vector(30_000, VectorOp.ADD, after=(load,))  # 30 us
    timing = replace(PLAIN, ddr_core_bytes_per_s=100 * GB)
    steady = SimulatorBackend(STD, timing).steady(
        builder.build(), RunOptions(instances=2, set_size=4)
    )
    c, d = 30.0, 10.0
    # d (1 + a) = a (c + d (1 + a)), solved for a in 0..1.
    a = (np.sqrt(c * c + 4 * d * d) - c) / (2 * d)
    assert d * (1 + a) == pytest.approx(a * (c + d * (1 + a)))
    assert steady.flying[DDR] == pytest.approx(a, rel=1e-4)
    assert steady.execution is not None
    assert steady.execution.duration_ps / 1e6 == pytest.approx(c + d * (1 + a), rel=1e-4)


@given(program=programs(), set_size=st.integers(1, 5))
def test_instances_that_move_nothing_do_not_meet(program: Program, set_size: int) -> None:
    if SimulatorBackend(STD).steady(program, RunOptions(instances=1)).flying.any():
        return
    one = SimulatorBackend(STD).run(program, RunOptions(instances=1, set_size=set_size))
    two = SimulatorBackend(STD).run(program, RunOptions(instances=2, set_size=set_size))
    assert two.inferences_per_s == pytest.approx(2 * one.inferences_per_s)


def test_executions_serve_every_set_size_that_keeps_the_device_busy() -> None:
    builder = ProgramBuilder()
    load = builder.read(1_000_000)
    builder.vector(30_000, VectorOp.ADD, after=(load,))
    program = builder.build()
    backend = SimulatorBackend(STD, replace(PLAIN, ddr_core_bytes_per_s=100 * GB))
    first = backend.steady(program, RunOptions(instances=3, set_size=4))
    second = backend.steady(program, RunOptions(instances=3, set_size=9))
    assert first.execution is second.execution


@dataclass(frozen=True)
class Answer:
    """An instance of which only these numbers are known."""

    flying: F64
    fitting_clock_hz: float


@given(
    fall=st.floats(0.0, 0.6),
    denser=st.floats(0.0, 1.0),
    slower=st.floats(0.0, 0.5),
    others=st.integers(1, 13),
)
def test_numbers_that_pull_at_each_other_settle_soon(
    fall: float, denser: float, slower: float, others: int
) -> None:
    """DDR's transfers a and the clock f, of a model with a known answer.

    a = 1/2 - fall (a - 1/2) + denser (f - 1) and f = 1 + slower (a - 1/2): at a = 1/2, f = 1.
    """
    asked = 0

    def alone(around: Surroundings) -> Answer:
        nonlocal asked
        asked += 1
        a = around.background[DDR] / 2**20 / others - 0.5
        f = around.clock_hz / GB - 1
        flying = np.zeros(4)
        flying[DDR] = 0.5 - fall * a + denser * f
        return Answer(flying, GB * min(1 + slower * a, 1.45))

    found = settle(alone, others, 1_450_000_000)
    assert found.flying[DDR] == pytest.approx(0.5, abs=1e-4)
    assert found.fitting_clock_hz == pytest.approx(GB, rel=1e-4)
    assert asked <= 12
