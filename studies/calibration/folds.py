"""Cross-validation by family: each family is predicted by a fit that never saw a row of it.

A fold goes the way of the whole fit again from the published values, on the other families' rows.
It takes over the derivatives, which say what a parameter does to a row, not what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from studies.calibration.fit import descend, residuals_of, scales_of
from studies.calibration.observations import Errors, Observation, errors_at
from studies.calibration.parameters import SPREADS, timing_at

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fold:
    """What a fit without `family` says of all its rows."""

    family: str
    observations: tuple[Observation, ...]
    errors: Errors


def families_of(observations: Sequence[Observation]) -> tuple[str, ...]:
    """The families in the order of their first rows."""
    return tuple(dict.fromkeys(one.row.family for one in observations))


def of_family(observations: Sequence[Observation], family: str) -> tuple[Observation, ...]:
    """Its rows."""
    return tuple(one for one in observations if one.row.family == family)


def errors_without(
    family: str,
    everything: Sequence[Observation],
    fitted_on: Sequence[Observation],
    jacobians: Sequence[F64],
) -> Errors:
    """Fit without `family`, then predict all its rows; `jacobians` are the whole fit's."""
    kept = [at for at, one in enumerate(fitted_on) if one.row.family != family]
    others = [fitted_on[at] for at in kept]
    rows = np.concatenate([np.array(kept) + part * len(fitted_on) for part in range(3)])
    weights = scales_of(fitted_on)[rows]
    remaining = iter([jacobian[rows] for jacobian in jacobians])
    logs, _ = descend(
        partial(_residuals, others, weights),
        partial(_next_of, remaining),
        SPREADS,
        lambda *_: None,
    )
    return errors_at(of_family(everything, family), timing_at(logs))


def _residuals(observations: Sequence[Observation], scales: F64, logs: F64) -> F64:
    return residuals_of(errors_at(observations, timing_at(logs)), scales)


def _next_of(jacobians: Iterator[F64], logs: F64, residuals: F64) -> F64:
    return next(jacobians)
