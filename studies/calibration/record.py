"""The record of a fit: what it was made from, how it went, and how well it predicts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program, TaskKind, VectorOp
from configurator.trust import ONE_AT_A_TIME, OTHERWISE, one_at_a_time
from configurator.validate.rows import MeasuredRow
from configurator.validate.statistics import errors_of
from runtime_sim.timing import TimingParams, as_document
from studies.calibration.fit import OPTIMISER, Fit
from studies.calibration.folds import Fold
from studies.calibration.observations import Errors, Observation
from studies.calibration.parameters import PARAMETERS, values_of

_DIGITS = 4

_COUNTS = 0.02
"""assumed: of less than this share of the elements, a row says nothing about a class."""

Document = dict[str, object]


def record(
    timing: TimingParams,
    fit: Fit,
    fitted_on: Sequence[Observation],
    folds: Sequence[Fold],
    data: Path,
    models: Path,
) -> Document:
    """All of it, as the timing file holds it."""
    return {
        "timing": as_document(timing),
        "fit": {
            "optimiser": OPTIMISER,
            "random": "nothing",
            "data_sha256": _digest([data]),
            "graphs_sha256": _digest(sorted(models.glob("*.onnx"))),
            "rows": len(fitted_on),
            "loss": [round(loss, _DIGITS) for loss in fit.loss],
            "parameters": _parameters(fit),
        },
        "calibrated_on": calibrated_on([one for fold in folds for one in fold.observations]),
        "cross_validation": accuracy(folds),
        "residuals": [row for fold in folds for row in _residuals(fold)],
    }


def calibrated_on(observations: Sequence[Observation]) -> Document:
    """What the rows cover: cards by their number of rows, and vector classes that count in one."""
    counts = Counter(one.row.sku.value for one in observations)
    shares = np.max([_vector_shares(one.program) for one in observations], axis=0)
    classes = [op.name for op in VectorOp if shares[op] >= _COUNTS]
    return {"rows_by_sku": dict(sorted(counts.items())), "vector_classes": classes}


def _vector_shares(program: Program) -> NDArray[np.float64]:
    """Each class's share of a program's vector elements."""
    vector = program.tasks.kind == TaskKind.VECTOR
    classes, elements = program.tasks.w1[vector], program.tasks.w0[vector]
    found = np.bincount(classes, elements, len(VectorOp))
    return np.asarray(found / max(1.0, found.sum()), dtype=np.float64)


def _digest(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _parameters(fit: Fit) -> list[Document]:
    """Values with the range in which they lie with 95 %, given the rows and what is published."""
    low, high = (values_of(fit.logs + side * 1.96 * fit.deviations) for side in (-1, 1))
    columns = zip(PARAMETERS, values_of(fit.logs), low, high, strict=True)
    return [
        {"name": p.name, "published": p.published, "fitted": value, "low": least, "high": most}
        for p, value, least, most in columns
    ]


def accuracy(folds: Sequence[Fold]) -> Document:
    """Errors of the folds: of rates by note, of latencies and powers; and quantiles of rates."""
    notes = sorted({one.row.note for fold in folds for one in fold.observations})
    groups = {note: asdict(errors_of(rate_pairs(folds, note))) for note in notes}
    return {
        "overall": asdict(errors_of(rate_pairs(folds))),
        "latency": asdict(
            errors_of(_pairs(folds, lambda row: row.measured_ms, lambda e: e.latency))
        ),
        "power": asdict(errors_of(_pairs(folds, lambda row: row.power_w, lambda e: e.power))),
        "groups": groups,
        "families": {fold.family: asdict(errors_of(rate_pairs([fold]))) for fold in folds},
        "measured_over_predicted": {
            ONE_AT_A_TIME: _quantiles(folds, alone=True),
            OTHERWISE: _quantiles(folds, alone=False),
        },
    }


def rate_pairs(folds: Sequence[Fold], note: str | None = None) -> list[tuple[float, float]]:
    """Predicted and measured samples a second, of rows with the note."""
    return _pairs(folds, lambda row: row.measured_ips, lambda errors: errors.rate, note)


def _pairs(
    folds: Sequence[Fold],
    measured: Callable[[MeasuredRow], float | None],
    errors: Callable[[Errors], NDArray[np.float64]],
    note: str | None = None,
) -> list[tuple[float, float]]:
    """Predicted and measured, of rows with the note for which it was published."""
    known = [
        (measured(one.row), error)
        for fold in folds
        for one, error in zip(fold.observations, errors(fold.errors).tolist(), strict=True)
        if note in (None, one.row.note)
    ]
    return [(value * float(np.exp(error)), value) for value, error in known if value is not None]


def _quantiles(folds: Sequence[Fold], *, alone: bool) -> Document:
    """Between these, measured over predicted lay in 80 % of the rows, families counted alike."""
    ratios, weights = [], []
    for fold in folds:
        found = [
            float(np.exp(-error))
            for one, error in zip(fold.observations, fold.errors.rate.tolist(), strict=True)
            if one_at_a_time(one.program, one.row.run.set_size) == alone
            and one.row.measured_ips is not None
        ]
        ratios += found
        weights += [1 / len(found)] * len(found)
    order = np.argsort(ratios)
    place = np.cumsum(np.array(weights)[order]) / sum(weights)
    low, high = (float(np.array(ratios)[order][np.searchsorted(place, q)]) for q in (0.1, 0.9))
    return {"low": round(low, _DIGITS), "high": round(high, _DIGITS)}


def _residuals(fold: Fold) -> list[Document]:
    """Logarithms of predicted over measured, of the fit that did not see the row's family."""
    columns = zip(
        fold.observations,
        fold.errors.rate.tolist(),
        fold.errors.latency.tolist(),
        fold.errors.power.tolist(),
        strict=True,
    )
    return [
        {"id": one.row.id, "family": fold.family}
        | {
            name: None if np.isnan(error) else round(error, _DIGITS)
            for name, error in zip(("rate", "latency", "power"), errors, strict=True)
        }
        for one, *errors in columns
    ]
