"""The seam between tuning and whatever runs a program."""

from __future__ import annotations

from typing import Protocol, TypeVar

from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions

P_contra = TypeVar("P_contra", contravariant=True)


class DeviceBackend(Protocol[P_contra]):
    """Runs a compiled program on a device, simulated or real.

    A protocol, because the implementations must not know each other; generic in what it can run,
    so that the type checker refuses a compiler and a backend that do not belong together.
    `run` raises `RunOptionError` or `DoesNotFitError` for what the device refuses, and gives
    equal measurements for equal arguments where `deterministic` is true.
    """

    @property
    def version(self) -> str:
        """What ran: changes whenever results may change."""

    @property
    def deterministic(self) -> bool:
        """Whether a repeated run gives the same measurement."""

    def run(self, program: P_contra, options: RunOptions) -> Measurement:
        """Run `options.instances` of `program` with full queues and measure the steady part."""
