"""The record of a fit: what it was made from, how it went, and how well it predicts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program, TaskKind, VectorOp
from configurator.validate.statistics import errors_of
from runtime_sim.timing import TimingParams, as_document
from studies.calibration.fit import OPTIMISER, Fit
from studies.calibration.folds import Fold
from studies.calibration.observations import Observation
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
        "latency": asdict(errors_of(_latency_pairs(folds))),
        "power": asdict(errors_of(_power_pairs(folds))),
        "groups": groups,
        "families": {fold.family: asdict(errors_of(rate_pairs([fold]))) for fold in folds},
        "measured_over_predicted": {
            "one sample at a time": _quantiles(folds, lone=True),
            "otherwise": _quantiles(folds, lone=False),
        },
    }


def rate_pairs(folds: Sequence[Fold], note: str | None = None) -> list[tuple[float, float]]:
    """Predicted and measured samples a second, of rows with the note."""
    return [
        (one.row.measured_ips * float(np.exp(error)), one.row.measured_ips)
        for fold in folds
        for one, error in zip(fold.observations, fold.errors.rate.tolist(), strict=True)
        if one.row.measured_ips is not None and note in (None, one.row.note)
    ]


def _latency_pairs(folds: Sequence[Fold]) -> list[tuple[float, float]]:
    return [
        (one.row.measured_ms * float(np.exp(error)), one.row.measured_ms)
        for fold in folds
        for one, error in zip(fold.observations, fold.errors.latency.tolist(), strict=True)
        if one.row.measured_ms is not None
    ]


def _power_pairs(folds: Sequence[Fold]) -> list[tuple[float, float]]:
    return [
        (one.row.power_w * float(np.exp(error)), one.row.power_w)
        for fold in folds
        for one, error in zip(fold.observations, fold.errors.power.tolist(), strict=True)
        if one.row.power_w is not None
    ]


def _quantiles(folds: Sequence[Fold], *, lone: bool) -> Document:
    """Between these, measured over predicted lay in 80 % of the rows, families counted alike."""
    ratios, weights = [], []
    for fold in folds:
        found = [
            float(np.exp(-error))
            for one, error in zip(fold.observations, fold.errors.rate.tolist(), strict=True)
            if one.is_lone == lone and one.row.measured_ips is not None
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
