"""Which trial is better: pure functions of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from configurator.records import TrialRow, Workflow
from runtime_sim.measurement import Measurement

# assumed: what a user would not trade anything for. On a card, repeated runs differ by more.
TIE_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class _Complete:
    """A complete trial without the optional."""

    row: TrialRow
    measured: Measurement


def score(workflow: Workflow, measured: Measurement) -> float:
    """What a search maximises: samples per second, or minus the mean latency in seconds."""
    if workflow is Workflow.THROUGHPUT:
        return measured.inferences_per_s
    return -measured.latency.mean_s


def ranked(rows: Iterable[TrialRow], workflow: Workflow) -> tuple[TrialRow, ...]:
    """The complete trials, best first.

    Scores within `TIE_SHARE` of the best count as equal, and so do those within `TIE_SHARE` of the
    best of the rest, and so on. Ties are broken, for throughput, by lower mean latency, fewer
    cores, smaller set size. For latency they are broken by fewer cores, smaller set size, higher
    throughput and last by the latency that tied. The trial number decides what is still equal.
    """
    left = sorted(_complete(rows), key=lambda trial: -score(workflow, trial.measured))
    order: list[_Complete] = []
    while left:
        best_score = score(workflow, left[0].measured)
        least = best_score - TIE_SHARE * abs(best_score)
        tied = [trial for trial in left if score(workflow, trial.measured) >= least]
        order += sorted(tied, key=lambda trial: _tie_key(workflow, trial))
        left = left[len(tied) :]
    return tuple(trial.row for trial in order)


def best(rows: Iterable[TrialRow], workflow: Workflow) -> TrialRow | None:
    """The first of `ranked`; None where no trial is complete."""
    return next(iter(ranked(rows, workflow)), None)


def pareto_front(rows: Iterable[TrialRow]) -> tuple[TrialRow, ...]:
    """The complete trials that no other dominates, by rising mean latency.

    A trial dominates another when its throughput is not lower, its mean latency not higher, and
    one of the two is better. Trials that are equal in both stay together.
    """
    front: list[_Complete] = []
    for trial in sorted(_complete(rows), key=_front_key):
        if not front or _rate(trial) > _rate(front[-1]) or _equal(trial, front[-1]):
            front.append(trial)
    return tuple(trial.row for trial in front)


def _complete(rows: Iterable[TrialRow]) -> list[_Complete]:
    return [_Complete(row, row.measurement) for row in rows if row.measurement is not None]


def _tie_key(workflow: Workflow, trial: _Complete) -> tuple[float, ...]:
    cores = trial.row.candidate.compile.num_cores
    set_size = trial.row.candidate.run.set_size
    latency_s = trial.measured.latency.mean_s
    if workflow is Workflow.THROUGHPUT:
        return (latency_s, cores, set_size, trial.row.number)
    return (cores, set_size, -_rate(trial), latency_s, trial.row.number)


def _front_key(trial: _Complete) -> tuple[float, ...]:
    return (trial.measured.latency.mean_s, -_rate(trial), trial.row.number)


def _rate(trial: _Complete) -> float:
    return trial.measured.inferences_per_s


def _equal(one: _Complete, other: _Complete) -> bool:
    same_latency = one.measured.latency.mean_s == other.measured.latency.mean_s
    return same_latency and _rate(one) == _rate(other)
