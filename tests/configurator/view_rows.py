"""Studies and trials made by hand, for the tests of what users see."""

from __future__ import annotations

from datetime import UTC, datetime

from compiler.options import CompileOptions
from compiler.target import Sku
from configurator.records import (
    Candidate,
    Provenance,
    Study,
    TrialRow,
    TrialState,
    Workflow,
)
from runtime_sim.measurement import Busy, Latency, Measurement, Source
from runtime_sim.options import RunOptions

WHEN = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
SHA = "ab" * 32


def study(
    *,
    name: str = "resnet50-throughput",
    model_path: str = "models/resnet50.onnx",
    batch_symbol: str | None = "batch",
    symbols: tuple[tuple[str, int], ...] = (),
    workflow: Workflow = Workflow.THROUGHPUT,
) -> Study:
    """A study of a ResNet-50 on the Standard card."""
    return Study(
        name=name,
        model_path=model_path,
        model_sha256=SHA,
        batch_symbol=batch_symbol,
        symbols=symbols,
        sku=Sku.STD,
        workflow=workflow,
        seed=1,
        created_at=WHEN,
    )


def candidate(
    *,
    cores: int = 2,
    instances: int = 7,
    batch_size: int = 4,
    set_size: int = 10,
    ols: int | None = 1,
    mos: int | None = 1,
    multicast_weights: bool = True,
    symbols: tuple[tuple[str, int], ...] = (),
) -> Candidate:
    """One point; by default the one that the vendor's tutorial publishes."""
    return Candidate(
        CompileOptions(
            num_cores=cores,
            batch_size=batch_size,
            ols=ols,
            mos=mos,
            multicast_weights=multicast_weights,
            symbols=symbols,
        ),
        RunOptions(instances=instances, set_size=set_size),
    )


def measurement(inferences_per_s: float, latency_s: float, batch_size: int) -> Measurement:
    """A run of one second whose percentiles spread around the mean `latency_s`."""
    inferences = 1000
    return Measurement(
        source=Source.SIMULATOR,
        backend_version="simulator 0",
        timing_id="hand-made",
        inferences=inferences,
        batch_size=batch_size,
        duration_s=inferences * batch_size / inferences_per_s,
        latency=Latency(
            latency_s, latency_s * 0.99, latency_s * 1.1, latency_s * 1.2, latency_s * 1.4
        ),
        busy=Busy(hmx=0.5, hvx=0.25, dma=0.125, noc=0.1, ddr=0.75, pcie_in=0.3, pcie_out=0.01),
    )


def complete(number: int, asked: Candidate, inferences_per_s: float, latency_s: float) -> TrialRow:
    """A trial with a measurement."""
    measured = measurement(inferences_per_s, latency_s, asked.compile.batch_size)
    return _row(number, asked, TrialState.COMPLETE, measured, "")


def infeasible(number: int, asked: Candidate, reason: str) -> TrialRow:
    """A trial that could not run."""
    return _row(number, asked, TrialState.INFEASIBLE, None, reason)


def _row(
    number: int, asked: Candidate, state: TrialState, measured: Measurement | None, reason: str
) -> TrialRow:
    return TrialRow(
        study="resnet50-throughput",
        number=number,
        candidate=asked,
        state=state,
        measurement=measured,
        reason=reason,
        provenance=Provenance(
            model_sha256=SHA,
            sku=Sku.STD,
            compiler_version="compiler 0",
            backend_version="simulator 0",
            timing_id="hand-made",
            configurator_version="0",
            seed=1,
            host="host",
        ),
        started_at=WHEN,
        wall_s=0.25,
    )


def small_study_rows() -> tuple[TrialRow, ...]:
    """Seven trials: the baseline, a batch sweep at 2 x 7, another split, and one that fails."""
    return (
        complete(0, candidate(cores=14, instances=1, batch_size=1), 1800.0, 0.0055),
        complete(1, candidate(batch_size=1), 2500.0, 0.028),
        complete(2, candidate(batch_size=2), 4100.0, 0.034),
        complete(3, candidate(batch_size=4), 6300.0, 0.044),
        complete(4, candidate(batch_size=8), 6500.0, 0.086),
        complete(5, candidate(cores=7, instances=2, batch_size=8), 4800.0, 0.033),
        infeasible(6, candidate(batch_size=64), "Conv_1: needs 9 MiB, has 8 MiB; lower cores"),
    )
