"""What a run yields, whichever backend ran it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PERCENTILES = (50, 90, 95, 99)


class Source(Enum):
    """Where the numbers come from."""

    SIMULATOR = "simulator"
    HARDWARE = "hardware"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Latency:
    """Round trips in seconds, from the runtime call to the end of post-processing.

    One sample is one inference of the whole batch. Percentiles are nearest-rank: the smallest
    sample that at least p % of all samples do not exceed.
    """

    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float


def summarize(round_trips_s: tuple[float, ...]) -> Latency:
    """The summary of at least one round trip."""
    if not round_trips_s:
        raise ValueError("no round trips to summarize")
    ordered = sorted(round_trips_s)

    def rank(percent: int) -> float:
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]

    mean_s = sum(ordered) / len(ordered)
    return Latency(mean_s, rank(50), rank(90), rank(95), rank(99))


@dataclass(frozen=True, slots=True)
class Busy:
    """Share of the measured window in which a resource worked, 0..1.

    HMX, HVX and DMA are means over the NSPs in use; the rest is of the whole card.
    """

    hmx: float
    hvx: float
    dma: float
    noc: float
    ddr: float
    pcie_in: float
    pcie_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run. `inferences` counts batches that completed in the window of `duration_s`.

    `clock_hz` of the NSPs and `power_w` of the card are means, `None` where nobody told.
    """

    source: Source
    backend_version: str
    timing_id: str
    inferences: int
    batch_size: int
    duration_s: float
    latency: Latency
    busy: Busy
    clock_hz: float | None = None
    power_w: float | None = None

    @property
    def joules_per_inference(self) -> float | None:
        """Of one sample, static power included."""
        return None if self.power_w is None else self.power_w / self.inferences_per_s

    @property
    def inferences_per_s(self) -> float:
        """Samples (not batches) per second over all instances."""
        return self.inferences * self.batch_size / self.duration_s
