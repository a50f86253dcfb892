"""The fit: Gauss-Newton with Levenberg's damping, on logarithms, robust against odd rows.

Minimised is the sum over all errors of Cauchy-like penalties (an error counts less the farther off
it is) plus the squared distances of the parameters from what is published, each in units of its
own standard deviation. Nothing is random: the same rows give the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.calibration.observations import Errors, Observation, weights_of
from studies.calibration.parameters import SPREADS

F64 = NDArray[np.float64]

Simulate = Callable[[F64], Errors]
SimulateMany = Callable[[Sequence[F64]], list[Errors]]

OPTIMISER = "Gauss-Newton, Levenberg damping, soft-L1 loss, Gaussian priors; forward differences"

ITERATIONS = 5
"""assumed: the loss stands still after the third."""

STEP = 0.08
"""assumed: of a parameter's logarithm; smaller ones drown in the rounding of integer cycles."""

_TRIALS = 6
_LARGEST_STEP = 0.8
_DAMPING = 0.3
_SOFT = 2.0
"""assumed: errors beyond so many standard deviations count linearly."""

RATE_SIGMA, LONE_RATE_SIGMA = 0.05, 0.13
"""Of the measurements: throughputs repeat within 1.4 % in the median and 9.6 % at worst, rates at
batch and set size 1 within 25 % between hosts (two publications of the same configurations)."""

LATENCY_SIGMA, LONE_LATENCY_SIGMA = 0.08, 0.15
"""assumed: a percentile scatters half as much again as the rate."""

POWER_SIGMA = 0.12
"""assumed: whole-card joules a second, of a board whose regulators and fans are not modelled."""

_DEPENDENT = 0.7
"""assumed: latency and power mostly repeat what the rate says."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Where the fit ended: logarithms of the parameters' factors and their standard deviations.

    `loss` has an entry for the start and each step that was taken; `jacobians`
    [residual, parameter] are those of each iteration.
    """

    logs: F64
    deviations: F64
    loss: tuple[float, ...]
    jacobians: tuple[F64, ...]


def scales_of(observations: Sequence[Observation]) -> F64:
    """Weight over standard deviation of each error, stacked as `Errors.stacked`."""
    weight = weights_of(observations)
    lone = np.array([observation.is_lone for observation in observations])
    rate = np.where(lone, LONE_RATE_SIGMA, RATE_SIGMA)
    latency = np.where(lone, LONE_LATENCY_SIGMA, LATENCY_SIGMA)
    return np.concatenate(
        [weight / rate, _DEPENDENT * weight / latency, _DEPENDENT * weight / POWER_SIGMA]
    )


def residuals_of(errors: Errors, scales: F64) -> F64:
    """Errors in standard deviations; what was not published is 0."""
    return np.asarray(np.nan_to_num(errors.stacked() * scales), dtype=np.float64)


def loss_of(residuals: F64, logs: F64, spreads: F64) -> float:
    """What is minimised."""
    soft = 2 * _SOFT**2 * (np.sqrt(1 + (residuals / _SOFT) ** 2) - 1)
    return float(soft.sum() + ((logs / spreads) ** 2).sum())


def fit(
    observations: Sequence[Observation],
    simulate: SimulateMany,
    told: Callable[[int, float], None],
) -> Fit:
    """Fit all parameters; `told` hears of each iteration and its loss."""
    scales = scales_of(observations)
    jacobians: list[F64] = []

    def derivatives(logs: F64, residuals: F64) -> F64:
        moved = [residuals_of(errors, scales) for errors in simulate(moved_from(logs))]
        jacobians.append(differences(moved, residuals))
        return jacobians[-1]

    def residuals(logs: F64) -> F64:
        return residuals_of(simulate([logs])[0], scales)

    logs, losses = descend(residuals, derivatives, SPREADS, told)
    deviations = _deviations(residuals(logs), jacobians[-1])
    return Fit(logs, deviations, losses, tuple(jacobians))


def descend(
    residuals_at: Callable[[F64], F64],
    jacobian_at: Callable[[F64, F64], F64],
    spreads: F64,
    told: Callable[[int, float], None],
) -> tuple[F64, tuple[float, ...]]:
    """The parameters' logarithms at the end, and the losses on the way there.

    `spreads` are the parameters' own standard deviations. `jacobian_at` is asked once an
    iteration, with the point and its residuals.
    """
    logs, damping = np.zeros(len(spreads)), _DAMPING
    residuals = residuals_at(logs)
    losses = [loss_of(residuals, logs, spreads)]
    for iteration in range(ITERATIONS):
        told(iteration, losses[-1])
        jacobian = jacobian_at(logs, residuals)
        for _ in range(_TRIALS):
            trial = logs + _step(logs, residuals, jacobian, spreads, damping)
            found = residuals_at(trial)
            if loss_of(found, trial, spreads) < losses[-1]:
                logs, residuals, damping = trial, found, damping / 4
                losses.append(loss_of(residuals, logs, spreads))
                break
            damping *= 5
    return logs, tuple(losses)


def moved_from(logs: F64) -> list[F64]:
    """The points at which `differences` wants the residuals: one parameter moved in each."""
    return [logs + STEP * unit for unit in np.eye(len(logs))]


def differences(moved: Sequence[F64], residuals: F64) -> F64:
    """The Jacobian [residual, parameter] by forward differences."""
    return np.stack([(column - residuals) / STEP for column in moved], axis=1)


def _step(logs: F64, residuals: F64, jacobian: F64, spreads: F64, damping: float) -> F64:
    """The step that minimises the loss if errors were linear, no parameter too far at once."""
    robust = 1 / np.sqrt(1 + (residuals / _SOFT) ** 2)
    normal = (jacobian.T * robust) @ jacobian + np.diag((1 + damping) / spreads**2)
    slope = (jacobian.T * robust) @ residuals + logs / spreads**2
    step = -np.linalg.solve(normal, slope)
    return np.asarray(np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), dtype=np.float64)


def _deviations(residuals: F64, jacobian: F64) -> F64:
    """Standard deviations of the logarithms: of the inverse of the loss's curvature."""
    robust = 1 / np.sqrt(1 + (residuals / _SOFT) ** 2)
    normal = (jacobian.T * robust) @ jacobian + np.diag(1 / SPREADS**2)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(normal))), dtype=np.float64)
