"""Where the time of an inference went, and what each layer and operation had of it.

All times are sums over the inferences of the steady part, in integer picoseconds, so that sums of
parts are exact; `Profile.mean_s` makes seconds of one inference of them. Bytes and MACs are those
of one inference of the whole batch, over all cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.program import Engine, Program
from compiler.target import DeviceSpec
from runtime_sim.device.work import PS_PER_S, server_rows
from runtime_sim.host.queue import PS_PER_NS
from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions
from runtime_sim.profile.operations import Operation, operations_of, work_of
from runtime_sim.profile.passes import Pass, StageRun, passes_of, stage_of_tasks, stage_runs
from runtime_sim.profile.path import PARTS, Part
from runtime_sim.profile.stages import PART_OF, Stage, borders_of
from runtime_sim.simulator import Recording, SimulatorBackend
from runtime_sim.timing import CALIBRATED, TimingParams

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """What tasks of one layer or kind sum up to.

    `held_ps` by `Engine`: how long they hold it, over all cores. `path_ps` by `PARTS`: how long
    the inference waited for just them, see `runtime_sim.profile.path`. Times are of all
    inferences of the profile, the rest is of one; see `Work`.
    """

    tasks: int
    held_ps: tuple[int, ...]
    path_ps: tuple[int, ...]
    macs: int
    made_bytes: int
    read_bytes: int
    written_bytes: int
    sent_bytes: int

    @property
    def ddr_bytes(self) -> int:
        """Bytes that cross the border to DDR, both ways."""
        return self.read_bytes + self.written_bytes

    @property
    def engine(self) -> Engine:
        """The one that they hold longest."""
        return Engine(self.held_ps.index(max(self.held_ps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One instance in its steady state, `inferences` of it.

    `stage_ps` by `Stage` and `part_ps` by `PARTS` both add up to `round_trip_ps`. `layers` are
    those of the program; `operators` are groups of layers with the same operator, `operations` of
    tasks that do the same. `passes` and `borders` (see `borders_of`) are of the whole recording.
    """

    program: Program
    device: DeviceSpec
    options: RunOptions
    measured: Measurement
    recording: Recording
    clock_hz: int
    stage_ps: tuple[int, ...]
    part_ps: tuple[int, ...]
    layers: tuple[Group, ...]
    operators: tuple[tuple[str, Group], ...]
    operations: tuple[tuple[Operation, Group], ...]
    passes: tuple[Pass, ...]
    borders: I64

    @property
    def inferences(self) -> int:
        """Over how many inferences times are summed."""
        return self.recording.inferences

    @property
    def round_trip_ps(self) -> int:
        """From call to result."""
        return sum(self.stage_ps)

    @property
    def execution_ps(self) -> int:
        """On the cores."""
        return self.stage_ps[Stage.EXECUTE]

    def mean_s(self, total_ps: int) -> float:
        """Seconds of one inference, of picoseconds of all."""
        return total_ps / self.inferences / PS_PER_S

    def mean_cycles(self, total_ps: int) -> float:
        """The same in cycles of the NSP clock."""
        return self.mean_s(total_ps) * self.clock_hz


def profile(
    program: Program, device: DeviceSpec, options: RunOptions, timing: TimingParams = CALIBRATED
) -> Profile:
    """Run `options.instances` of `program` and say where the time went; raises as `run` does."""
    backend = SimulatorBackend(device, timing, merge_runs=False)
    steady = backend.steady(program, options)
    run = stage_runs(program, server_rows(device, timing), steady, timing)
    passes = tuple(passes_of(program, steady.recording, run, timing))
    borders = borders_of(steady.recording, program, timing)
    window = range(steady.recording.warmup, steady.recording.warmup + options.inferences)
    shares = _Shares(passes, window)
    stage_ps = np.diff(borders[:, window.start : window.stop], axis=0).sum(axis=1)
    columns = _columns(program, shares)
    operations, operation = operations_of(program)
    layer = program.tasks.layer.astype(np.int64)
    operators = tuple(dict.fromkeys(one.op for one in program.layers))
    operator = np.asarray([operators.index(one.op) for one in program.layers])[layer]
    return Profile(
        program=program,
        device=device,
        options=options,
        measured=backend.run(program, options),
        recording=steady.recording,
        clock_hz=steady.clock_hz,
        stage_ps=tuple(stage_ps.tolist()),
        part_ps=_part_ps(stage_ps.tolist(), shares, timing.launch_ns * PS_PER_NS),
        layers=_groups(layer, len(program.layers), columns),
        operators=_named(operators, _groups(operator, len(operators), columns)),
        operations=tuple(
            zip(operations, _groups(operation, len(operations), columns), strict=True)
        ),
        passes=passes,
        borders=borders,
    )


class _Shares:
    """Which passes the inferences of a window were in, and in which stages."""

    def __init__(self, passes: Iterable[Pass], window: range) -> None:
        self.runs: list[StageRun] = []
        self.inferences: Counter[int] = Counter()
        self.stages: Counter[tuple[int, int]] = Counter()
        self.begun_ps: dict[int, list[int]] = {}
        self.ended_ps: dict[int, list[int]] = {}
        for one in passes:
            self._add(one, window)

    def _add(self, one: Pass, window: range) -> None:
        for stage, number in enumerate(one.held):
            if number in window:
                run = self._index(one.run)
                self.inferences[run] += 1
                self.stages[run, stage] += 1
                self.begun_ps.setdefault(number, []).append(one.begun_ps)
                self.ended_ps.setdefault(number, []).append(one.ended_ps)

    def _index(self, run: StageRun) -> int:
        for at, known in enumerate(self.runs):
            if known is run:
                return at
        self.runs.append(run)
        return len(self.runs) - 1

    def gaps_ps(self) -> list[int]:
        """Between the passes of each inference."""
        return [
            begun - ended
            for number in self.begun_ps
            for ended, begun in zip(self.ended_ps[number], self.begun_ps[number][1:], strict=False)
        ]


def _part_ps(stage_ps: Sequence[int], shares: _Shares, launch_ps: int) -> tuple[int, ...]:
    """The stages by what they wait for, and the execution by its path."""
    found = dict.fromkeys(PARTS, 0)
    for stage, part in PART_OF.items():
        found[part] += stage_ps[stage]
    for run, count in shares.inferences.items():
        for part, spent_ps in zip(PARTS, shares.runs[run].path.by_part().tolist(), strict=True):
            found[part] += spent_ps * count
    gaps_ps = shares.gaps_ps()
    found[Part.SYNC] += launch_ps * len(gaps_ps)
    found[Part.QUEUE] += sum(gaps_ps) - launch_ps * len(gaps_ps)
    return tuple(found.values())


def _columns(program: Program, shares: _Shares) -> I64:
    """What each task adds to its groups: the fields of `Group` end to end, [task, column]."""
    count, work = len(program.tasks), work_of(program)
    held = np.zeros((count, len(Engine)), dtype=np.int64)
    held[np.arange(count), work.engine] = _held_ps(program, shares)
    path = np.zeros((count, len(PARTS)), dtype=np.int64)
    for at, times in shares.inferences.items():
        run = shares.runs[at]
        spent_ps = (run.path.end_ps - run.path.start_ps) * times
        np.add.at(path, (run.number[run.path.task], run.path.part), spent_ps)
    counts = (
        work.macs,
        work.made_bytes,
        work.read_bytes,
        work.written_bytes,
        work.sent_bytes,
    )
    ones = np.ones((count, 1), dtype=np.int64)
    return np.concatenate([ones, held, path, np.stack(counts, axis=1)], axis=1)


def _held_ps(program: Program, shares: _Shares) -> I64:
    """How long each task holds its engine, over all inferences."""
    found, of_task = np.zeros(len(program.tasks), dtype=np.int64), stage_of_tasks(program)
    for (at, stage), times in shares.stages.items():
        run = shares.runs[at]
        mine = of_task[run.number] == stage
        held_ps = run.execution.freed - run.execution.begun
        found[run.number[mine]] += held_ps[mine] * times
    return found


def _groups(index: I64, count: int, columns: I64) -> tuple[Group, ...]:
    sums = np.zeros((count, columns.shape[1]), dtype=np.int64)
    np.add.at(sums, index, columns)
    engines, parts = 1 + len(Engine), 1 + len(Engine) + len(PARTS)
    return tuple(
        Group(row[0], tuple(row[1:engines]), tuple(row[engines:parts]), *row[parts:])
        for row in sums.tolist()
    )


def _named(names: Sequence[str], groups: Sequence[Group]) -> tuple[tuple[str, Group], ...]:
    return tuple(zip(names, groups, strict=True))
