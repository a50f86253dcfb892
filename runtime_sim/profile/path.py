"""The critical path of an execution: which task, and what of it, held up the end at each instant.

Walked back from the end: a task begins when the last of what it waits for is there, so what was
last is the reason for all that came later. Each instant of the execution belongs to one task of
the path: the parts add up to the execution, to the picosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from compiler.program import Engine, Program
from runtime_sim.device.execution import Execution
from runtime_sim.device.work import NOC, T_QUEUE, T_SERVER, T_TIME, PreparedTasks
from runtime_sim.profile.operations import engines_of

I64 = NDArray[np.int64]


class Part(Enum):
    """What an inference spends its time on.

    DDR and NETWORK are transfers with their latencies; ISSUE is the scalar work that starts a
    task, whatever its engine; SYNC has barriers, and the semaphores of a launch; QUEUE is waiting
    behind other inferences.
    """

    HMX = "hmx"
    HVX = "hvx"
    DDR = "ddr"
    NETWORK = "network"
    SYNC = "sync"
    ISSUE = "issue"
    PCIE = "pcie"
    HOST = "host"
    QUEUE = "queue"


PARTS = tuple(Part)
_COMPUTING = {Engine.HMX: Part.HMX, Engine.HVX: Part.HVX, Engine.SYNC: Part.SYNC}


@dataclass(frozen=True, slots=True)
class Path:
    """Pieces of an execution in order of time; each begins where the one before ends.

    `task` is whose piece it is, `part` its index in `PARTS`, times are from the launch.
    """

    task: I64
    part: I64
    start_ps: I64
    end_ps: I64

    def by_part(self) -> I64:
        """Picoseconds of each of `PARTS`."""
        return _sums(self.part, self.end_ps - self.start_ps, len(PARTS))

    def by_task(self, tasks: int) -> I64:
        """Picoseconds of each of a program's `tasks`."""
        return _sums(self.task, self.end_ps - self.start_ps, tasks)


def _sums(index: I64, values: I64, count: int) -> I64:
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, index, values)
    return found


def critical_path(
    program: Program, tasks: PreparedTasks, execution: Execution, issue_ps: I64
) -> Path:
    """The path through an `execution` of `tasks`, which are `program`'s, not merged.

    `issue_ps` [task] is how long a computing task is issued before its engine works. Of several
    reasons that a task may begin, a dependency counts before the engine's order, and of
    dependencies the last in the program.
    """
    number, until = _steps(_reasons(program, tasks, execution), execution)
    begun = execution.begun[number]
    computing = tasks.task[:, T_SERVER] < 0
    issued = begun + np.where(computing, issue_ps, tasks.task[:, T_TIME])[number]
    starts = np.stack([begun, issued], axis=1).ravel()
    ends = np.stack([issued, until], axis=1).ravel()
    issue = np.full(len(number), PARTS.index(Part.ISSUE))
    part = np.stack([issue, _parts(program, tasks)[number]], axis=1).ravel()
    real = ends > starts
    return Path(np.repeat(number, 2)[real], part[real], starts[real], ends[real])


def _parts(program: Program, tasks: PreparedTasks) -> I64:
    """What each task counts for once it is issued."""
    computing = np.asarray([PARTS.index(_COMPUTING.get(engine, Part.DDR)) for engine in Engine])
    network = tasks.task[:, T_SERVER] == NOC
    return np.where(network, PARTS.index(Part.NETWORK), computing[engines_of(program)])


def _reasons(program: Program, tasks: PreparedTasks, execution: Execution) -> I64:
    """For each task the one whose end let it begin; -1 where it begins with the execution."""
    columns, begun = program.tasks, execution.begun
    later = np.repeat(np.arange(len(columns), dtype=np.int64), np.diff(columns.after_start))
    earlier = columns.after.astype(np.int64)
    last = execution.ended[earlier] == begun[later]
    reason = np.full(len(columns), -1, dtype=np.int64)
    np.maximum.at(reason, later[last], earlier[last])
    before = _before(tasks.task[:, T_QUEUE])
    in_order = (reason < 0) & (before >= 0)
    in_order &= execution.freed[before] == begun
    return np.where(in_order, before, reason)


def _before(queue: I64) -> I64:
    """The task before each on its engine; -1 for the first."""
    before = np.full(len(queue), -1, dtype=np.int64)
    order = np.argsort(queue, kind="stable")
    same = queue[order[1:]] == queue[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _steps(reasons: I64, execution: Execution) -> tuple[I64, I64]:
    """The tasks of the path in order of time, and until when each is on it."""
    begun, reason = execution.begun.tolist(), reasons.tolist()
    number, until = int(execution.ended.argmax()), execution.duration_ps
    steps = [(number, until)]
    while begun[number] > 0:
        number, until = reason[number], begun[number]
        steps.append((number, until))
    found = np.asarray(steps[::-1], dtype=np.int64)
    return found[:, 0], found[:, 1]
