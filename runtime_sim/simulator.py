"""The simulator as a backend: programs in, measurements out."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from compiler.program import Engine, Program
from compiler.target import DeviceSpec
from runtime_sim.device.power import Energy, cap_w, clock_within, energy_of, power_w
from runtime_sim.device.work import (
    BACKGROUND,
    DDR,
    INTEGRAL,
    MOVED,
    NOC,
    T_BYTES,
    T_SERVER,
    TOTAL,
    PreparedTasks,
    bytes_per_s,
    lump,
    prepare_tasks,
    server_rows,
)
from runtime_sim.errors import DoesNotFitError, RunOptionError
from runtime_sim.host.moments import Moment
from runtime_sim.host.queue import host_parameters
from runtime_sim.measurement import Busy, Measurement, Source, summarize
from runtime_sim.options import RunOptions, violations
from runtime_sim.steady import Surroundings, settle
from runtime_sim.timing import CALIBRATED, TimingParams
from runtime_sim.version import simulator_version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runtime_sim.device.execution import Execution
    from runtime_sim.engine import I64

_PROGRAMS_KEPT = 32
"""assumed: programs held ready to run; a study alternates between fewer."""

_EXECUTIONS_KEPT = 32
"""assumed: executions of a program held; one answer takes about ten, and others share them."""

PS_PER_S = 10**12


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run recorded, in picoseconds of simulated time.

    `moments` [moment, instance, inference]: when each inference came to each `Moment`; `asked_at`
    (the call), `begun_at`, `ended_at` (the execution on the device) and `done_at` (the completion)
    are some of them. `busy_ps`: [instance, core x engine] in the window from `start_ps` to
    `end_ps`; `moved_bytes` and `flying`, the integral over time of the transfers in flight, by
    server, in the same window.
    """

    moments: I64
    busy_ps: I64
    moved_bytes: I64
    flying: I64
    start_ps: int
    end_ps: int
    warmup: int
    inferences: int
    events: int

    @property
    def asked_at(self) -> I64:
        """The calls, [instance, inference]."""
        return self.at(Moment.ASKED)

    @property
    def begun_at(self) -> I64:
        """The executions' begins, [instance, inference]."""
        return self.at(Moment.BEGUN)

    @property
    def ended_at(self) -> I64:
        """The executions' ends, [instance, inference]."""
        return self.at(Moment.ENDED)

    @property
    def done_at(self) -> I64:
        """The completions, [instance, inference]."""
        return self.at(Moment.DONE)

    def at(self, moment: Moment) -> I64:
        """When each inference came to a moment, [instance, inference]."""
        found: I64 = self.moments[moment]
        return found

    @property
    def window_ps(self) -> int:
        """How long the counters ran."""
        return max(self.end_ps - self.start_ps, 1)

    @property
    def per_s(self) -> float:
        """Inferences (of the whole batch) a second, all instances together."""
        first, last = self.warmup - 1, self.warmup + self.inferences - 1
        spans_s = (self.done_at[:, last] - self.done_at[:, first]) / PS_PER_S
        return float(np.sum(self.inferences / spans_s))

    def round_trips_s(self) -> tuple[float, ...]:
        """From call to completion, of each inference in the window."""
        return self._spans_s(self.asked_at, self.done_at)

    def executions_s(self) -> tuple[float, ...]:
        """On the device, of each inference in the window."""
        return self._spans_s(self.begun_at, self.ended_at)

    def _spans_s(self, start: I64, end: I64) -> tuple[float, ...]:
        window = slice(self.warmup, self.warmup + self.inferences)
        return tuple(((end - start)[:, window].ravel() / PS_PER_S).tolist())


@dataclass(frozen=True, slots=True)
class Steady:
    """One of several like instances in their steady state; see `runtime_sim.steady`.

    `flying` and `bytes_per_s` [server]: its mean number of transfers in flight, and what it
    moves. `busy` [core x engine]: shares of time. `execution` is the one on the device, `None` for
    a pipeline, whose passes differ. `power_w` is the card's, all instances together. `around` is
    what it saw of the others.
    """

    recording: Recording
    execution: Execution | None
    flying: NDArray[np.float64]
    bytes_per_s: NDArray[np.float64]
    busy: NDArray[np.float64]
    around: Surroundings
    power_w: float
    fitting_clock_hz: float

    @property
    def clock_hz(self) -> int:
        """The NSP clock that the power of all leaves."""
        return self.around.clock_hz


class SimulatorBackend:
    """Runs programs of one device; keeps what runs of the same program share."""

    def __init__(
        self, device: DeviceSpec, timing: TimingParams = CALIBRATED, *, merge_runs: bool = True
    ) -> None:
        self._device = device
        self._merge_runs = merge_runs
        self._timing = timing
        self._servers = server_rows(device, timing)
        self._cap_w = cap_w(device, timing)
        self._held: OrderedDict[int, _Held] = OrderedDict()

    @property
    def version(self) -> str:
        """Release and source digest."""
        return simulator_version()

    @property
    def deterministic(self) -> bool:
        """Equal arguments give equal measurements."""
        return True

    @property
    def timing_id(self) -> str:
        """Digest of the timing parameters in use."""
        return self._timing.id

    def run(self, program: Program, options: RunOptions) -> Measurement:
        """Simulate `options.instances` of `program`; see `DeviceBackend.run`."""
        return self._measure(program, options, self.steady(program, options))

    def steady(self, program: Program, options: RunOptions) -> Steady:
        """One instance as it runs beside the others; raises as `run` does."""
        self._check(program, options)
        alone = partial(self._alone, self._hold(program), options)
        return settle(alone, options.instances - 1, self._timing.nsp_clock_hz)

    def record(self, program: Program, options: RunOptions) -> Recording:
        """Simulate every transfer of all instances, in the phases that they happen to have."""
        clock_hz = self.steady(program, options).clock_hz
        tasks = self._hold(program).tasks.at(clock_hz)
        return self._record(program, options, tasks, self._servers)

    def _alone(self, held: _Held, options: RunOptions, around: Surroundings) -> Steady:
        """One instance in its surroundings, and the power of all `options.instances`."""
        lone = replace(options, instances=1)
        if len(held.program.stage_cores) > 1:
            execution, shown = None, self._piped(held, lone, around)
        else:
            execution = self._execution(held, around)
            shown = self._lumped(held, lone, around, execution)
        per_s = shown.recording.per_s * options.instances
        power = power_w(held.energy, per_s, around.clock_hz, self._timing)
        fitting = clock_within(self._cap_w, held.energy, per_s, around.clock_hz, self._timing)
        return Steady(
            shown.recording,
            execution,
            shown.flying,
            shown.bytes_per_s,
            shown.busy,
            around,
            power,
            fitting,
        )

    def _lumped(
        self, held: _Held, options: RunOptions, around: Surroundings, execution: Execution
    ) -> _Shown:
        """The host's queue around executions that take just so long."""
        servers = self._beside(around.background)
        run = self._record(held.program, options, lump(execution.duration_ps), servers)
        flying, moved = _means(run)
        per_ps = options.inferences / float(run.window_ps)
        flying[[DDR, NOC]] = execution.flying * per_ps
        moved[[DDR, NOC]] = held.moved_bytes * per_ps * PS_PER_S
        busy = np.asarray(execution.busy_ps * per_ps, dtype=np.float64)
        return _Shown(run, flying, moved, busy)

    def _piped(self, held: _Held, options: RunOptions, around: Surroundings) -> _Shown:
        """A pipeline with each of its passes, as its stages fill and drain."""
        tasks, servers = held.tasks.at(around.clock_hz), self._beside(around.background)
        run = self._record(held.program, options, tasks, servers)
        return _Shown(run, *_means(run), run.busy_ps[0] / np.float64(run.window_ps))

    def _execution(self, held: _Held, around: Surroundings) -> Execution:
        from runtime_sim.device import execution  # numba takes most of a second to import

        ddr, noc = around.background[DDR], around.background[NOC]
        key = (ddr, noc, around.clock_hz)
        if key not in held.executions:
            if len(held.executions) >= _EXECUTIONS_KEPT:
                held.executions.popitem(last=False)
            tasks = held.tasks.at(around.clock_hz)
            held.executions[key] = execution.execute(tasks, self._servers, (ddr, noc))
        return held.executions[key]

    def _beside(self, background: tuple[int, ...]) -> I64:
        servers = self._servers.copy()
        servers[:, BACKGROUND] = background
        return servers

    def _record(
        self, program: Program, options: RunOptions, tasks: PreparedTasks, servers: I64
    ) -> Recording:
        from runtime_sim import engine

        parameters = host_parameters(program, options, self._timing, tasks)
        world = engine.new_world(parameters, tasks.task, tasks.lists, tasks.queues, servers.copy())
        events = engine.simulate(*world)
        return Recording(
            moments=world.times,
            busy_ps=world.queue[:, :, engine.BUSY_PS].copy(),
            moved_bytes=world.server[:, MOVED].copy(),
            flying=world.server[:, INTEGRAL].copy(),
            start_ps=int(world.values[engine.WINDOW_START]),
            end_ps=int(world.values[engine.WINDOW_END]),
            warmup=int(parameters[engine.P_WARMUP]),
            inferences=options.inferences,
            events=int(events),
        )

    def _check(self, program: Program, options: RunOptions) -> None:
        device = self._device
        found = violations(options, program.options.num_cores, device)
        if program.sku is not device.sku:
            found += (f"the program is for {program.sku.value}, the device is {device.sku.value}",)
        if found:
            raise RunOptionError("; ".join(found))
        memory = program.memory
        needed = memory.constants_bytes + memory.ddr_per_instance_bytes * options.instances
        if needed > device.ddr_bytes:
            raise DoesNotFitError(
                f"{options.instances} instances need {needed / 1e9:.1f} GB of DDR, "
                f"{device.sku.value} has {device.ddr_bytes / 1e9:.1f} GB; lower instances or "
                "batch size"
            )

    def _hold(self, program: Program) -> _Held:
        key = id(program)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        tasks = prepare_tasks(program, self._timing, merge_runs=self._merge_runs)
        energy = energy_of(program, self._timing)
        self._held[key] = _Held(program, tasks, _moved_bytes(tasks), energy, OrderedDict())
        if len(self._held) > _PROGRAMS_KEPT:
            self._held.popitem(last=False)
        return self._held[key]

    def _measure(self, program: Program, options: RunOptions, steady: Steady) -> Measurement:
        completed = options.inferences * options.instances
        return Measurement(
            source=Source.SIMULATOR,
            backend_version=self.version,
            timing_id=self._timing.id,
            inferences=completed,
            batch_size=program.options.batch_size,
            duration_s=options.inferences / steady.recording.per_s,
            latency=summarize(steady.recording.round_trips_s()),
            busy=self._busy(program, options, steady),
            clock_hz=float(steady.clock_hz),
            power_w=steady.power_w,
        )

    def _busy(self, program: Program, options: RunOptions, steady: Steady) -> Busy:
        cores = program.options.num_cores
        engines = steady.busy.reshape(cores, len(Engine)).sum(axis=0) / cores
        rates_per_s = bytes_per_s(self._servers[:, TOTAL])
        links = steady.bytes_per_s * options.instances / rates_per_s
        return Busy(
            hmx=float(engines[Engine.HMX]),
            hvx=float(engines[Engine.HVX]),
            dma=float((engines[Engine.LOAD] + engines[Engine.STORE]) / 2),
            ddr=float(links[0]),
            noc=float(links[1]),
            pcie_in=float(links[2]),
            pcie_out=float(links[3]),
        )


@dataclass(frozen=True, slots=True)
class _Held:
    """A program ready to run.

    `moved_bytes` [2] are what DDR and network move for one execution; `executions` are known ones
    by the background of both and the clock.
    """

    program: Program
    tasks: PreparedTasks
    moved_bytes: NDArray[np.float64]
    energy: Energy
    executions: OrderedDict[tuple[int, int, int], Execution]


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one instance shows of itself; see `Steady`."""

    recording: Recording
    flying: NDArray[np.float64]
    bytes_per_s: NDArray[np.float64]
    busy: NDArray[np.float64]


def _means(run: Recording) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Transfers in flight and bytes a second at each server, over the window."""
    window_ps = float(run.window_ps)
    return run.flying / window_ps, run.moved_bytes / (window_ps / PS_PER_S)


def _moved_bytes(tasks: PreparedTasks) -> NDArray[np.float64]:
    server, size = tasks.task[:, T_SERVER], tasks.task[:, T_BYTES]
    return np.array([size[server == s].sum() for s in (DDR, NOC)], dtype=np.float64)
