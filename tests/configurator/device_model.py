"""A card in closed form: what a search test measures, in microseconds and without a compiler."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

from compiler.target import Sku
from configurator.records import Candidate, Provenance, TrialRow, TrialState
from runtime_sim.measurement import Busy, Latency, Measurement, Source

WHEN = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
ROWS_PER_SAMPLE = 49
PROVENANCE = Provenance(
    model_sha256="cd" * 32,
    sku=Sku.STD,
    compiler_version="compiler 1",
    backend_version="model 1",
    timing_id="closed form 1",
    configurator_version="0",
    seed=7,
    host="host",
)


def device_s(candidate: Candidate) -> float:
    """Seconds of one batch on its instance.

    Rows are dealt to cores in whole tiles, cores lose time to each other, large batches per core
    spill, and all instances read their weights through one memory.
    """
    cores, batch = candidate.compile.num_cores, candidate.compile.batch_size
    tiles = ceil(batch * ROWS_PER_SAMPLE / (8 * cores))
    spill = 1.0 + 0.09 * max(0, batch / cores - 2)
    compute_s = tiles * 1.1e-4 * spill * (1 + 0.035 * (cores - 1))
    weights_s = 51e6 / 60e9 * candidate.run.instances
    return max(compute_s, weights_s) + 2e-4


def measure(candidate: Candidate) -> Measurement:
    """A closed queue: the host needs a millisecond a round trip, the device serves in turn."""
    batch, run = candidate.compile.batch_size, candidate.run
    service_s, host_s = device_s(candidate), 1e-3 + 5e-5 * batch
    period_s = max(service_s, (service_s + host_s) / run.set_size)
    round_trip_s = period_s * run.set_size
    inferences = 20 * run.instances
    return Measurement(
        source=Source.NULL,
        backend_version=PROVENANCE.backend_version,
        timing_id=PROVENANCE.timing_id,
        inferences=inferences,
        batch_size=batch,
        duration_s=20 * period_s,
        latency=Latency(round_trip_s, round_trip_s, round_trip_s, round_trip_s, round_trip_s),
        busy=Busy(0.5, 0.25, 0.1, 0.2, 0.3, 0.4, 0.01),
    )


def complete(number: int, candidate: Candidate) -> TrialRow:
    """The row of a candidate that ran."""
    return _row(number, candidate, TrialState.COMPLETE, measure(candidate), "")


def infeasible(number: int, candidate: Candidate) -> TrialRow:
    """The row of a candidate that does not fit."""
    return _row(number, candidate, TrialState.INFEASIBLE, None, "needs 9 MiB, has 8 MiB")


def _row(
    number: int,
    candidate: Candidate,
    state: TrialState,
    measurement: Measurement | None,
    reason: str,
) -> TrialRow:
    return TrialRow(
        study="study",
        number=number,
        candidate=candidate,
        state=state,
        measurement=measurement,
        reason=reason,
        provenance=PROVENANCE,
        started_at=WHEN,
        wall_s=0.1,
    )
