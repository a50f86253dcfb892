"""A backend that runs nothing: for tests of what stands above it, and dry runs."""

from __future__ import annotations

from compiler.program import Program
from compiler.target import DeviceSpec
from runtime_sim.errors import RunOptionError
from runtime_sim.measurement import Busy, Measurement, Source, summarize
from runtime_sim.options import RunOptions, violations

TASKS_PER_S = 1_000_000
"""By definition: this backend's pretended speed, so that its results are easy to foresee."""


class NullBackend:
    """Pretends that each task takes a microsecond and that instances do not disturb each other."""

    def __init__(self, device: DeviceSpec) -> None:
        self._device = device

    @property
    def version(self) -> str:
        """Constant: the pretence does not change."""
        return "null-1"

    @property
    def deterministic(self) -> bool:
        """Equal arguments give equal measurements."""
        return True

    @property
    def timing_id(self) -> str:
        """There are no timing parameters."""
        return "null"

    def run(self, program: Program, options: RunOptions) -> Measurement:
        """A measurement in closed form; see `DeviceBackend.run`."""
        found = violations(options, program.options.num_cores, self._device)
        if program.sku is not self._device.sku:
            found += (f"the program is for {program.sku.value}, not {self._device.sku.value}",)
        if found:
            raise RunOptionError("; ".join(found))
        execution_s = len(program.tasks) / TASKS_PER_S
        round_trip_s = execution_s * options.set_size
        return Measurement(
            source=Source.NULL,
            backend_version=self.version,
            timing_id=self.timing_id,
            inferences=options.inferences * options.instances,
            batch_size=program.options.batch_size,
            duration_s=execution_s * options.inferences,
            latency=summarize((round_trip_s,) * options.inferences),
            busy=Busy(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        )
