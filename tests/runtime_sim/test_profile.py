"""Where the time went: sums to the tick, a path that has no gap, closed forms, and lanes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.program import Engine, Program, TaskKind, VectorOp
from compiler.target import Sku, device
from runtime_sim.options import RunOptions
from runtime_sim.profile.lanes import Lane, lanes_of, window_of
from runtime_sim.profile.operations import work_of
from runtime_sim.profile.passes import Pass
from runtime_sim.profile.path import PARTS, Part
from runtime_sim.profile.profile import Profile, profile
from runtime_sim.profile.stages import Stage
from runtime_sim.simulator import SimulatorBackend
from tests.oracles.programs import ProgramBuilder, programs
from tests.runtime_sim.test_closed_forms import NS, PLAIN, US

STD = device(Sku.STD)
OPTIONS = st.builds(
    RunOptions,
    instances=st.integers(1, 3),
    set_size=st.integers(1, 6),
    inferences=st.integers(1, 6),
    threads_per_queue=st.integers(1, 3),
)


def part_us(found: Profile) -> dict[Part, float]:
    """Microseconds of one inference, of parts that have any."""
    named = zip(PARTS, found.part_ps, strict=True)
    return {part: spent / found.inferences / US for part, spent in named if spent}


@given(program=programs(), options=OPTIONS)
def test_parts_add_up_to_the_round_trip_to_the_tick(program: Program, options: RunOptions) -> None:
    found, run = profile(program, STD, options), SimulatorBackend(STD).steady(program, options)
    window = slice(run.recording.warmup, run.recording.warmup + options.inferences)
    spans = (run.recording.done_at - run.recording.asked_at)[0, window]
    assert sum(found.part_ps) == sum(found.stage_ps) == spans.sum()
    assert min(found.part_ps) >= 0
    assert min(found.stage_ps) >= 0
    assert found.measured == SimulatorBackend(STD).run(program, options)


@given(program=programs(), options=OPTIONS)
def test_passes_are_those_of_the_recording(program: Program, options: RunOptions) -> None:
    """Begins and ends of executions were simulated task by task in the pipeline's own run."""
    found = profile(program, STD, options)
    run = found.recording
    last = max(1, len(program.stage_cores)) - 1
    for number in range(run.warmup + options.inferences):
        (first,) = [one for one in found.passes if one.held[0] == number]
        (end,) = [one for one in found.passes if one.held[last] == number]
        assert first.begun_ps == run.begun_at[0, number]
        assert end.ended_ps == run.ended_at[0, number]


@given(program=programs(), options=OPTIONS)
def test_a_path_has_no_gap_and_follows_what_is_waited_for(
    program: Program, options: RunOptions
) -> None:
    for one in profile(program, STD, options).passes:
        path, execution = one.run.path, one.run.execution
        assert sum(path.by_part()) == sum(path.by_task(len(program.tasks)))
        assert sum(path.by_part()) == execution.duration_ps
        if not execution.duration_ps:
            continue
        assert path.start_ps[0] == 0
        assert path.end_ps[-1] == execution.duration_ps
        assert np.all(path.end_ps[:-1] == path.start_ps[1:])
        assert np.all(path.start_ps >= execution.begun[path.task])
        assert np.all(path.end_ps <= execution.ended[path.task])
        assert_legal_steps(program, one)


def assert_legal_steps(program: Program, one: Pass) -> None:
    """Each task of the path waits for the one before it, or stands behind it on its engine."""
    tasks, engine = program.tasks, work_of(program).engine
    order = one.run.number[one.run.path.task]
    for earlier, later in pairwise(order):
        if earlier != later:
            needs = tasks.after[tasks.after_start[later] : tasks.after_start[later + 1]]
            place = [(tasks.core[task], engine[task]) for task in (earlier, later)]
            assert earlier in needs or place[0] == place[1]


@given(program=programs(), options=OPTIONS)
def test_groups_share_the_same_work(program: Program, options: RunOptions) -> None:
    """Against the event loop's busy times and bytes, and the program's own columns."""
    found, tasks = profile(program, STD, options), program.tasks
    by_operation = [group for _, group in found.operations]
    for groups in (found.layers, by_operation, [group for _, group in found.operators]):
        assert sum(group.tasks for group in groups) == len(tasks)
        reads = int(tasks.w0[tasks.kind == TaskKind.READ].sum())
        assert sum(group.read_bytes for group in groups) == reads
        sent = int(tasks.w0[tasks.receivers > 0].sum())
        assert sum(group.sent_bytes for group in groups) == sent
        spent = [sum(group.path_ps) for group in groups]
        held = np.array([group.held_ps for group in groups]).sum(axis=0)
        if not program.stage_cores:
            execution = SimulatorBackend(STD).steady(program, options).execution
            assert execution is not None
            busy_ps = execution.busy_ps.reshape(-1, len(Engine)).sum(axis=0)
            assert held.tolist() == (busy_ps * options.inferences).tolist()
            assert sum(spent) == found.execution_ps
        assert np.array([group.path_ps for group in groups]).sum(axis=0).tolist() == [
            sum(group.path_ps[at] for group in found.layers) for at in range(len(PARTS))
        ]


def test_each_part_by_hand() -> None:
    """A chain over all engines; another branch is shorter and hides nothing."""
    builder = ProgramBuilder(num_cores=2, input_bytes=20_000, output_bytes=10_000)
    read = builder.read(250_000)  # 10 us at 25 GB/s, 3 to issue, 1 of latency
    product = builder.matmul(32, 32, 32 * 500, after=(read,))  # 500 blocks of 8 cycles: 4 us
    builder.vector(4_100, VectorOp.ADD, after=(read,), core=1)  # beside the product
    send = builder.send(200_000, 1, after=(product,))  # 2 us at 100 GB/s, 3 to issue, 0.5 latency
    meet = builder.barrier(after=(send,))  # 0.7 us
    builder.vector(7_000, VectorOp.ADD, after=(meet,), core=1)  # 7 us
    timing = replace(
        PLAIN,
        hmx_task_cycles=400,
        vector_task_cycles=200,
        dma_issue_cycles=3_000,
        ddr_latency_ns=1_000,
        noc_latency_ns=500,
        barrier_ns=500,
        barrier_core_ns=100,
        launch_ns=5_000,
        host_prepare_ns=4_000,
        host_submit_ns=6_500,
        pcie_latency_ns=2_000,
        host_finish_ns=2_500,
    )
    alone = RunOptions(instances=1, set_size=1, inferences=3)
    found = part_us(profile(builder.build(), STD, alone, timing))
    assert found == pytest.approx(
        {
            Part.HMX: 4,
            Part.HVX: 7,
            Part.DDR: 10 + 1,
            Part.NETWORK: 2 + 0.5,
            Part.SYNC: 0.7 + 5,
            Part.ISSUE: 3 + 0.4 + 3 + 0.2,
            Part.PCIE: 2 + 2 + 1 + 2,
            Part.HOST: 4 + 6.5 + 2.5,
        },
        rel=1e-5,
        abs=1e-5,
    )


@pytest.mark.parametrize("set_size", [3, 7])
def test_who_waits_in_a_full_queue_waits_for_the_others(set_size: int) -> None:
    """The device is never idle, so that a round trip is set-size executions (Little's law)."""
    builder = ProgramBuilder()
    builder.vector(7_000, VectorOp.ADD)
    options = RunOptions(instances=1, set_size=set_size, inferences=2 * set_size)
    found = part_us(profile(builder.build(), STD, options, PLAIN))
    assert found[Part.HVX] == pytest.approx(7)
    assert sum(found.values()) == pytest.approx(7 * set_size)
    assert found[Part.QUEUE] == pytest.approx(7 * (set_size - 1), abs=0.01)


def test_two_readers_share_ddr_on_the_path() -> None:
    """100 GB/s of 25 a core: with 2 instances of 4 readers each read takes twice as long."""
    builder = ProgramBuilder(num_cores=4)
    for core in range(4):
        for _ in range(50):
            builder.read(250_000, core=core)
    one, two = (
        part_us(profile(builder.build(), STD, RunOptions(instances=number, set_size=4), PLAIN))[
            Part.DDR
        ]
        for number in (1, 2)
    )
    assert one == pytest.approx(50 * 10, rel=1e-4)
    assert two == pytest.approx(2 * one, rel=1e-4)


def test_a_pipeline_waits_for_its_slower_stage() -> None:
    """Stages of 2 and 7 us: each inference is in two passes of 7, and both are the slow one's."""
    builder = ProgramBuilder(num_cores=2, stage_cores=(1, 1))
    builder.vector(2_000, VectorOp.ADD, core=0)
    builder.matmul(32, 32, 32 * 875, core=1)
    timing = replace(PLAIN, launch_ns=1_000)
    found = profile(builder.build(), STD, RunOptions(instances=1, set_size=5), timing)
    spent = part_us(found)
    assert spent[Part.HMX] == pytest.approx(14)
    assert spent[Part.SYNC] == pytest.approx(2)
    assert Part.HVX not in spent
    assert found.mean_s(found.execution_ps) == pytest.approx(15e-6)
    # An inference has each of its own tasks once.
    held_us = [spent_ps / found.inferences / US for spent_ps in found.layers[0].held_ps]
    assert held_us[Engine.HVX] == pytest.approx(2)
    assert held_us[Engine.HMX] == pytest.approx(7)


@given(program=programs(), options=OPTIONS, shown=st.integers(1, 4))
def test_lanes_do_not_overlap(program: Program, options: RunOptions, shown: int) -> None:
    found = profile(program, STD, options)
    window = window_of(found, shown)
    for lane in lanes_of(found, window):
        spans = lane.spans
        assert all(0 <= s.start_ps <= s.end_ps for s in spans)
        assert all(s.end_ps <= window.end_ps - window.start_ps for s in spans)
        assert all(a.end_ps <= b.start_ps for a, b in pairwise(spans))


@given(program=programs(), options=OPTIONS, shown=st.integers(1, 4))
def test_lanes_show_whole_executions(program: Program, options: RunOptions, shown: int) -> None:
    """What the lanes hold of so many inferences is what the tables count of one."""
    if program.stage_cores:
        return
    found = profile(program, STD, options)
    lanes = lanes_of(found, window_of(found, shown))
    count = min(shown, options.inferences)
    for engine in Engine:
        mine = [lane for lane in lanes if lane.name.endswith(f" {engine.name}")]
        total_ps = sum(group.held_ps[engine] for group in found.layers)
        assert length_ps(mine) * found.inferences == total_ps * count
    engines = [lane for lane in lanes if lane.name.startswith("core ")]
    moved = sum(dict(s.details)["bytes"] for lane in engines for s in lane.spans)  # type: ignore[misc]
    shown_tasks = [s for lane in engines for s in lane.spans]
    whole = work_of(program).result_bytes
    lasting = found.passes[-1].run.execution
    lasting_bytes = int(whole[lasting.freed > lasting.begun].sum())
    assert moved == lasting_bytes * count
    assert len(shown_tasks) == int((lasting.freed > lasting.begun).sum()) * count
    path = [lane for lane in lanes if lane.name == "critical path"]
    assert length_ps(path) * found.inferences == found.execution_ps * count


def length_ps(lanes: list[Lane]) -> int:
    return sum(span.end_ps - span.start_ps for lane in lanes for span in lane.spans)


def test_lanes_of_stages_show_who_waits() -> None:
    """A queue of five: one executes, one has its input on the card, three wait for a buffer."""
    builder = ProgramBuilder()
    builder.vector(7_000, VectorOp.ADD)
    timing = replace(PLAIN, launch_ns=1_000)
    found = profile(builder.build(), STD, RunOptions(instances=1, set_size=5), timing)
    lanes = lanes_of(found, window_of(found, 1))
    names = [lane.name for lane in lanes]
    assert [name for name in names if name.startswith("buffer")] == [
        "buffer wait",
        "buffer wait 2",
        "buffer wait 3",
    ]
    (device_wait,) = [lane for lane in lanes if lane.name == "device wait"]
    assert length_ps([device_wait]) == pytest.approx(8 * US, abs=50 * NS)
    whole = [dict(s.details).get("whole_us") for s in lanes[names.index("buffer wait")].spans]
    assert any(isinstance(us, float) and us > 8 for us in whole)


def test_an_output_that_waits_for_another_is_seen() -> None:
    """Outputs of 10 us leave after executions of 1 us: each waits for the one before it."""
    builder = ProgramBuilder(output_bytes=100_000)
    builder.vector(1_000, VectorOp.ADD)
    found = profile(builder.build(), STD, RunOptions(instances=1, set_size=8), PLAIN)
    stage_us = [spent / found.inferences / US for spent in found.stage_ps]
    assert stage_us[Stage.OUTPUT] == pytest.approx(10, rel=1e-4)
    assert stage_us[Stage.OUTPUT_WAIT] == pytest.approx(9, rel=1e-3)
    assert sum(stage_us) == pytest.approx(8 * 10, rel=1e-3)
