"""How far predictions are from measurements, and whether they rank alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors as fractions of what was measured; `None` where there is nothing to compare.

    `median_ape` and `mean_ape` are of the absolute errors, `bias` is the mean of the signed ones.
    """

    n: int
    refused: int
    median_ape: float | None
    mean_ape: float | None
    bias: float | None
    kendall_tau: float | None
    spearman_rho: float | None


def errors_of(pairs: Sequence[tuple[float, float]], refused: int = 0) -> Errors:
    """Of (predicted, measured) pairs."""
    if not pairs:
        return Errors(0, refused, None, None, None, None, None)
    predicted, measured = np.asarray(pairs, dtype=np.float64).T
    relative = predicted / measured - 1
    ranked = len(pairs) > 1
    return Errors(
        len(pairs),
        refused,
        float(np.median(np.abs(relative))),
        float(np.mean(np.abs(relative))),
        float(np.mean(relative)),
        kendall_tau(predicted, measured) if ranked else None,
        spearman_rho(predicted, measured) if ranked else None,
    )


def kendall_tau(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Tau-b: pairs ordered alike less pairs ordered otherwise, ties taken out; -1 to 1."""
    left = np.sign(first[:, None] - first[None, :])
    right = np.sign(second[:, None] - second[None, :])
    scale = np.sqrt(float((left**2).sum()) * float((right**2).sum()))
    return float((left * right).sum() / scale) if scale else None


def spearman_rho(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Correlation of the ranks; equal values share the mean of theirs."""
    left, right = _ranks(first), _ranks(second)
    left, right = left - left.mean(), right - right.mean()
    scale = np.sqrt(float((left**2).sum()) * float((right**2).sum()))
    return float((left * right).sum() / scale) if scale else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)
