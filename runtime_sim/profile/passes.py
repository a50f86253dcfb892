"""The passes of a run: when the cores ran, and which stages of a pipeline had work.

A program that is no pipeline has one stage, and each pass is the execution of one inference. In a
pipeline a pass runs all stages that hold an inference, and each moves on to the next stage at its
end; how long it takes depends on which do. The recording tells when inferences began and ended;
the passes between follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program, Tasks
from runtime_sim.device.execution import Execution, execute
from runtime_sim.device.work import DDR, NOC, PS_PER_S, T_TIME, prepare_tasks
from runtime_sim.engine import OUT_BUFFERS
from runtime_sim.host.moments import Moment
from runtime_sim.host.queue import PS_PER_NS
from runtime_sim.profile.operations import issue_cycles
from runtime_sim.profile.path import Path, critical_path
from runtime_sim.simulator import Recording, Steady
from runtime_sim.timing import TimingParams

I64 = NDArray[np.int64]

Stages = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StageRun:
    """What the cores do in a pass that runs certain stages of a pipeline.

    `number` are the program's tasks in it; `execution` and `path` index these.
    """

    number: I64
    execution: Execution
    path: Path


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: `held` is the inference in each stage, -1 where it has none."""

    begun_ps: int
    held: tuple[int, ...]
    run: StageRun

    @property
    def ended_ps(self) -> int:
        """When the cores were done."""
        return self.begun_ps + self.run.execution.duration_ps


def stage_runs(
    program: Program, servers: I64, steady: Steady, timing: TimingParams
) -> Callable[[Stages], StageRun]:
    """Runs certain stages of `program` beside the others; each choice of stages once."""
    background, clock_hz = steady.around.background, steady.clock_hz
    stage = stage_of_tasks(program)
    whole = prepare_tasks(program, timing, merge_runs=False)
    own_ps = whole.at(clock_hz).task[:, T_TIME]
    issue_ps = issue_cycles(program, whole.cycles, timing) * PS_PER_S // clock_hz

    @cache
    def run(stages: Stages) -> StageRun:
        number = np.flatnonzero(np.isin(stage, stages))
        if not len(number):
            return _idle()
        part = replace(program, tasks=_selected(program.tasks, number))
        tasks = prepare_tasks(part, timing, merge_runs=False)
        # What a task takes may depend on the cores of the whole program.
        tasks.task[:, T_TIME] = own_ps[number]
        execution = execute(tasks, servers, (background[DDR], background[NOC]))
        path = critical_path(part, tasks, execution, issue_ps[number])
        return StageRun(number, execution, path)

    return run


def stage_of_tasks(program: Program) -> I64:
    """The pipeline stage of each task; 0 where there is no pipeline."""
    cores = program.stage_cores or (program.options.num_cores,)
    return np.repeat(np.arange(len(cores)), cores)[program.tasks.core].astype(np.int64)


def _idle() -> StageRun:
    none = np.zeros(0, dtype=np.int64)
    zeros = np.zeros(2, dtype=np.int64)
    return StageRun(
        none, Execution(0, none, none, none, none, zeros, 0), Path(none, none, none, none)
    )


def _selected(tasks: Tasks, number: I64) -> Tasks:
    """Some of the tasks, which depend on none of the others."""
    if len(number) == len(tasks):
        return tasks
    new = np.full(len(tasks), -1, dtype=np.int64)
    new[number] = np.arange(len(number))
    fan_in = np.diff(tasks.after_start)
    after = new[tasks.after[np.repeat(new >= 0, fan_in)]]
    starts = np.concatenate([[0], np.cumsum(fan_in[number])])
    return Tasks(
        kind=tasks.kind[number],
        core=tasks.core[number],
        layer=tasks.layer[number],
        w0=tasks.w0[number],
        w1=tasks.w1[number],
        w2=tasks.w2[number],
        w3=tasks.w3[number],
        after_start=starts.astype(np.int64),
        after=after.astype(np.int32),
    )


def passes_of(
    program: Program,
    recording: Recording,
    run: Callable[[Stages], StageRun],
    timing: TimingParams,
) -> Iterator[Pass]:
    """All passes until the last inference of the recording's window has ended, in order."""
    begun_at = recording.begun_at[0].tolist()
    sent_at = (recording.at(Moment.DRAINED)[0] - output_latency_ps(program, timing)).tolist()
    last, launch_ps = recording.warmup + recording.inferences - 1, timing.launch_ns * PS_PER_NS
    held, free_ps, coming, ended = (-1,) * max(1, len(program.stage_cores)), 0, 0, 0
    while ended <= last:
        held = (-1, *held[:-1])
        begun_ps = begun_at[coming]
        if any(number >= 0 for number in held):
            # The outputs in front must leave room for one more.
            room_ps = sent_at[ended - OUT_BUFFERS] if ended >= OUT_BUFFERS else 0
            begun_ps = max(free_ps, room_ps) + launch_ps
        if begun_at[coming] == begun_ps:
            held, coming = (coming, *held[1:]), coming + 1
        stages = tuple(stage for stage, number in enumerate(held) if number >= 0)
        found = Pass(begun_ps, held, run(stages))
        yield found
        free_ps, ended = found.ended_ps, ended + (held[-1] >= 0)


def output_latency_ps(program: Program, timing: TimingParams) -> int:
    """From the end of an output's transfer until the host has it."""
    return program.output_transfers * timing.pcie_latency_ns * PS_PER_NS
