"""The simulator as a backend: programs in, measurements out."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from compiler.program import Engine, Program
from compiler.target import DeviceSpec
from runtime_sim.device.work import PreparedTasks, prepare_tasks, server_rows
from runtime_sim.errors import DoesNotFitError, RunOptionError
from runtime_sim.host.queue import host_parameters
from runtime_sim.measurement import Busy, Measurement, Source, summarize
from runtime_sim.options import RunOptions, violations
from runtime_sim.timing import PUBLISHED, TimingParams
from runtime_sim.version import simulator_version

if TYPE_CHECKING:
    from runtime_sim.engine import I64

_PREPARED_KEPT = 32
"""assumed: programs held ready to run; a study alternates between fewer."""

PS_PER_S = 10**12


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run recorded, in picoseconds of simulated time.

    `asked_at`, `begun_at`, `ended_at`, `done_at`: [instance, inference], the call, the execution
    on the device and the completion. `busy_ps`: [instance, core x engine] in the window from
    `start_ps` to `end_ps`; `moved_bytes` by server, in the same window.
    """

    asked_at: I64
    begun_at: I64
    ended_at: I64
    done_at: I64
    busy_ps: I64
    moved_bytes: I64
    start_ps: int
    end_ps: int
    warmup: int
    events: int


class SimulatorBackend:
    """Runs programs of one device; keeps what runs of the same program share."""

    def __init__(
        self, device: DeviceSpec, timing: TimingParams = PUBLISHED, *, merge_runs: bool = True
    ) -> None:
        self._device = device
        self._merge_runs = merge_runs
        self._timing = timing
        self._prepared: OrderedDict[int, tuple[Program, PreparedTasks]] = OrderedDict()

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
        return self._measure(program, options, self.record(program, options))

    def record(self, program: Program, options: RunOptions) -> Recording:
        """Simulate and give the times themselves."""
        self._check(program, options)
        from runtime_sim import engine  # numba takes most of a second to import

        tasks = self._tasks(program)
        parameters = host_parameters(program, options, self._timing, len(tasks.task))
        servers = server_rows(self._device, self._timing)
        world = engine.new_world(
            parameters, tasks.task, tasks.lists, tasks.queues, servers
        )
        events = engine.simulate(*world)
        asked_at, begun_at, ended_at, done_at = world.times
        return Recording(
            asked_at=asked_at,
            begun_at=begun_at,
            ended_at=ended_at,
            done_at=done_at,
            busy_ps=world.queue[:, :, engine.BUSY_PS].copy(),
            moved_bytes=world.server[:, engine.MOVED].copy(),
            start_ps=int(world.values[engine.WINDOW_START]),
            end_ps=int(world.values[engine.WINDOW_END]),
            warmup=int(parameters[engine.P_WARMUP]),
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

    def _tasks(self, program: Program) -> PreparedTasks:
        key = id(program)
        if key in self._prepared:
            self._prepared.move_to_end(key)
            return self._prepared[key][1]
        tasks = prepare_tasks(program, self._timing, merge_runs=self._merge_runs)
        self._prepared[key] = (program, tasks)
        if len(self._prepared) > _PREPARED_KEPT:
            self._prepared.popitem(last=False)
        return tasks

    def _measure(self, program: Program, options: RunOptions, run: Recording) -> Measurement:
        first, last = run.warmup, run.warmup + options.inferences
        done = run.done_at
        round_trips = (done - run.asked_at)[:, first:last].ravel() / PS_PER_S
        spans_s = (done[:, last - 1] - done[:, first - 1]) / PS_PER_S
        per_s = float(np.sum(options.inferences / spans_s))
        completed = options.inferences * options.instances
        return Measurement(
            source=Source.SIMULATOR,
            backend_version=self.version,
            timing_id=self._timing.id,
            inferences=completed,
            batch_size=program.options.batch_size,
            duration_s=completed / per_s,
            latency=summarize(tuple(round_trips.tolist())),
            busy=self._busy(program, options, run),
        )

    def _busy(self, program: Program, options: RunOptions, run: Recording) -> Busy:
        window_ps = max(run.end_ps - run.start_ps, 1)
        cores = options.instances * program.options.num_cores
        engines = run.busy_ps.reshape(cores, len(Engine)).sum(axis=0) / (window_ps * cores)
        rates = np.asarray(
            [
                self._timing.ddr_bytes_per_s,
                self._timing.noc_bytes_per_s,
                self._timing.pcie_bytes_per_s,
                self._timing.pcie_bytes_per_s,
            ],
            dtype=np.float64,
        )
        links = run.moved_bytes / rates / (window_ps / PS_PER_S)
        return Busy(
            hmx=float(engines[Engine.HMX]),
            hvx=float(engines[Engine.HVX]),
            dma=float((engines[Engine.LOAD] + engines[Engine.STORE]) / 2),
            ddr=float(links[0]),
            noc=float(links[1]),
            pcie_in=float(links[2]),
            pcie_out=float(links[3]),
        )
