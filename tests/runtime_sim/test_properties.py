"""What must hold of every program: bounds, conservation, determinism, one source run two ways."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.program import ENGINE_OF, Engine, Program, TaskKind
from compiler.target import Sku, device
from runtime_sim.device import work
from runtime_sim.errors import DoesNotFitError, RunOptionError
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder, programs

STD = device(Sku.STD)
RUNS = st.builds(
    RunOptions,
    instances=st.integers(1, 3),
    set_size=st.integers(1, 5),
    inferences=st.integers(1, 6),
    threads_per_queue=st.integers(1, 4),
)


@given(program=programs(), options=RUNS)
def test_no_inference_is_faster_than_its_busiest_engine(
    program: Program, options: RunOptions
) -> None:
    run = SimulatorBackend(STD).record(program, options)
    tasks = work.prepare_tasks(program, CALIBRATED)
    own = np.where(tasks.task[:, 1] < 0, tasks.task[:, 0], 0)
    least = np.bincount(tasks.task[:, 4], weights=own).max()
    window = slice(run.warmup, run.warmup + options.inferences)
    assert np.all((run.ended_at - run.begun_at)[:, window] >= least)


@given(program=programs(), options=RUNS)
def test_no_server_moves_more_than_its_rate(program: Program, options: RunOptions) -> None:
    run = SimulatorBackend(STD).record(program, options)
    spans = (run.ended_at - run.begun_at)[:, run.warmup]
    kind, size = program.tasks.kind, program.tasks.w0
    ddr = int(size[(kind == TaskKind.READ) | (kind == TaskKind.WRITE)].sum())
    assert np.all(spans * CALIBRATED.ddr_bytes_per_s >= ddr * 10**12 * (1 - 1e-9))


@given(program=programs(), options=RUNS)
def test_busy_time_is_the_work_that_was_done(program: Program, options: RunOptions) -> None:
    """Over any window an engine is busy at most all of it, and idle engines never are."""
    run = SimulatorBackend(STD).record(program, options)
    window = run.end_ps - run.start_ps
    assert np.all(run.busy_ps >= 0)
    assert np.all(run.busy_ps <= window)
    used = {
        core * len(Engine) + ENGINE_OF[TaskKind(kind)]
        for kind, core in zip(program.tasks.kind, program.tasks.core, strict=True)
    }
    idle = [queue for queue in range(run.busy_ps.shape[1]) if queue not in used]
    assert not run.busy_ps[:, idle].any()


@given(program=programs(), options=RUNS)
def test_inferences_of_an_instance_neither_overlap_nor_overtake(
    program: Program, options: RunOptions
) -> None:
    run = SimulatorBackend(STD).record(program, options)
    last = run.warmup + options.inferences
    begun, ended = run.begun_at[:, :last], run.ended_at[:, :last]
    assert np.all(ended >= begun)
    stages = max(1, len(program.stage_cores))
    assert np.all(begun[:, stages:] >= ended[:, :-stages])
    assert np.all(np.diff(begun, axis=1) >= 0)
    assert np.all(np.diff(ended, axis=1) >= 0)
    assert np.all(run.done_at[:, :last] >= ended)
    assert np.all(run.asked_at[:, :last] <= begun)


@given(program=programs(), options=RUNS)
def test_equal_arguments_give_equal_measurements(program: Program, options: RunOptions) -> None:
    assert SimulatorBackend(STD).run(program, options) == SimulatorBackend(STD).run(
        program, options
    )


@given(program=programs(), options=RUNS)
def test_a_faster_ddr_never_slows_a_single_core(program: Program, options: RunOptions) -> None:
    """With several in-order queues a faster link may reorder who waits for whom (a scheduling
    anomaly), so the claim is made where one core and one instance leave no such choice.
    """
    alone = replace(options, instances=1)
    if program.options.num_cores > 1:
        return
    fast = replace(CALIBRATED, ddr_bytes_per_s=2 * CALIBRATED.ddr_bytes_per_s)
    slow_run = SimulatorBackend(STD).run(program, alone)
    fast_run = SimulatorBackend(STD, fast).run(program, alone)
    assert fast_run.inferences_per_s >= slow_run.inferences_per_s * (1 - 1e-9)


@given(program=programs(), options=RUNS)
def test_merging_runs_changes_no_time(program: Program, options: RunOptions) -> None:
    merged = SimulatorBackend(STD).record(program, options)
    single = SimulatorBackend(STD, merge_runs=False).record(program, options)
    last = merged.warmup + options.inferences
    for mine, theirs in (
        (merged.asked_at, single.asked_at),
        (merged.begun_at, single.begun_at),
        (merged.ended_at, single.ended_at),
        (merged.done_at, single.done_at),
    ):
        np.testing.assert_array_equal(mine[:, :last], theirs[:, :last])
    np.testing.assert_array_equal(merged.busy_ps, single.busy_ps)
    assert merged.events <= single.events


_PLAIN_RUN = """
import pickle, sys
import numpy as np
from compiler.target import Sku, device
from runtime_sim.simulator import SimulatorBackend
import numba
assert numba.config.DISABLE_JIT
cases = pickle.load(open(sys.argv[1], "rb"))
out = []
for program, options in cases:
    backend = SimulatorBackend(device(Sku.STD))
    run, steady = backend.record(program, options), backend.run(program, options)
    out.append([steady, run.asked_at, run.begun_at, run.ended_at, run.done_at, run.busy_ps,
                run.moved_bytes, run.start_ps, run.end_ps, run.events])
pickle.dump(out, open(sys.argv[2], "wb"))
"""


def test_compiled_and_plain_python_agree_to_the_tick(tmp_path: Path) -> None:
    cases: list[tuple[Program, RunOptions]] = []

    @settings(max_examples=25, suppress_health_check=list(HealthCheck), database=None)
    @given(program=programs(), options=RUNS)
    def collect(program: Program, options: RunOptions) -> None:
        cases.append((program, options))

    collect()
    source, target = tmp_path / "cases", tmp_path / "results"
    source.write_bytes(pickle.dumps(cases))
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", _PLAIN_RUN, str(source), str(target)],
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": root},
    )
    plain = pickle.loads(target.read_bytes())
    assert len(plain) == len(cases) > 10
    for (program, options), (steady, *expected) in zip(cases, plain, strict=True):
        assert SimulatorBackend(STD).run(program, options) == steady
        run = SimulatorBackend(STD).record(program, options)
        got = [run.asked_at, run.begun_at, run.ended_at, run.done_at, run.busy_ps, run.moved_bytes]
        for mine, theirs in zip(got, expected[:6], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert [run.start_ps, run.end_ps, run.events] == expected[6:]


def burst_reference(sizes: list[int], starts: list[int], total: float, cap: float) -> list[float]:
    """Ends of transfers on a link served in bursts of 64 bytes, round robin, capped each.

    Written independently of the fluid server: time advances burst by burst.
    """
    burst = 64
    left = [float(size) for size in sizes]
    ready = [float(start) for start in starts]
    ends = [0.0] * len(sizes)
    now, turn = 0.0, 0
    while any(size > 0 for size in left):
        waiting = [
            (turn + k) % len(sizes)
            for k in range(len(sizes))
            if left[(turn + k) % len(sizes)] > 0 and ready[(turn + k) % len(sizes)] <= now
        ]
        if not waiting:
            now = min(ready[i] for i in range(len(sizes)) if left[i] > 0)
            continue
        chosen = waiting[0]
        size = min(burst, left[chosen])
        left[chosen] -= size
        ready[chosen] = now + size / cap
        now += size / total
        ends[chosen] = max(now, ready[chosen])
        turn = chosen + 1
    return ends


@given(
    sizes=st.lists(st.integers(2_000, 60_000), min_size=1, max_size=6),
    cap_share=st.sampled_from([0.2, 0.5, 1.0]),
)
def test_fluid_sharing_agrees_with_bursts(sizes: list[int], cap_share: float) -> None:
    total = 100 * 10**9
    timing = replace(
        CALIBRATED,
        ddr_bytes_per_s=total,
        ddr_core_bytes_per_s=int(total * cap_share),
        ddr_latency_ns=0,
        dma_issue_cycles=0,
    )
    builder = ProgramBuilder(num_cores=len(sizes))
    for core, size in enumerate(sizes):
        builder.read(size, core=core)
    run = SimulatorBackend(STD, timing).record(
        builder.build(), RunOptions(instances=1, set_size=1, inferences=1)
    )
    fluid = (run.ended_at - run.begun_at)[0, run.warmup]
    bursts = max(burst_reference(sizes, [0] * len(sizes), total / 1e12, total * cap_share / 1e12))
    # They differ by at most one burst a transfer.
    slack = len(sizes) * 64 / (total * cap_share) * 1e12 + 1
    assert fluid == pytest.approx(bursts, abs=slack)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(instances=8), "2 cores x 8 instances = 16, std has 14 NSPs"),
        (RunOptions(instances=0), "instances is 0"),
        (RunOptions(instances=1, set_size=0), "set size is 0"),
    ],
)
def test_illegal_runs_are_refused_with_numbers(options: RunOptions, words: str) -> None:
    builder = ProgramBuilder(num_cores=2)
    builder.matmul(1, 1, 1)
    with pytest.raises(RunOptionError, match=words):
        SimulatorBackend(STD).run(builder.build(), options)


def test_instances_that_exceed_ddr_do_not_fit() -> None:
    builder = ProgramBuilder()
    builder.matmul(1, 1, 1)
    program = builder.build(ddr_per_instance_bytes=6 * 10**9)
    SimulatorBackend(STD).run(program, RunOptions(instances=2))
    with pytest.raises(DoesNotFitError, match=r"need 18\.0 GB of DDR, std has 17\.2 GB"):
        SimulatorBackend(STD).run(program, RunOptions(instances=3))


def test_a_program_of_another_card_is_refused() -> None:
    builder = ProgramBuilder(sku=Sku.PRO)
    builder.matmul(1, 1, 1)
    with pytest.raises(RunOptionError, match="program is for pro, the device is std"):
        SimulatorBackend(STD).run(builder.build(), RunOptions(instances=1))
