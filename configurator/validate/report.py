"""Predictions as a document and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from configurator.tables import grid
from configurator.validate.predict import Prediction
from configurator.validate.statistics import Errors, errors_of

WORST_ROWS = 10


@dataclass(frozen=True, slots=True)
class Report:
    """Errors of throughput over all rows and by note and family, and of latency."""

    overall: Errors
    latency: Errors
    groups: dict[str, Errors]
    families: dict[str, Errors]
    predictions: tuple[Prediction, ...]


def report_of(predictions: Sequence[Prediction]) -> Report:
    """All errors of some predictions."""
    return Report(
        _throughput(predictions),
        _latency(predictions),
        _split(predictions, [prediction.row.note for prediction in predictions]),
        _split(predictions, [prediction.row.family for prediction in predictions]),
        tuple(predictions),
    )


def _split(predictions: Sequence[Prediction], keys: Sequence[str]) -> dict[str, Errors]:
    parts: dict[str, list[Prediction]] = {}
    for key, prediction in zip(keys, predictions, strict=True):
        parts.setdefault(key, []).append(prediction)
    return {key: _throughput(part) for key, part in parts.items()}


def _throughput(predictions: Sequence[Prediction]) -> Errors:
    pairs = [(predicted, measured) for _, predicted, measured in compared(predictions)]
    return errors_of(pairs, sum(bool(p.refused) for p in predictions))


def compared(predictions: Sequence[Prediction]) -> list[tuple[Prediction, float, float]]:
    """Predicted and measured rates where both are known."""
    return [
        (p, p.predicted_ips, p.row.measured_ips)
        for p in predictions
        if p.predicted_ips is not None and p.row.measured_ips is not None
    ]


def _latency(predictions: Sequence[Prediction]) -> Errors:
    pairs = [
        (p.predicted_ms, p.row.measured_ms)
        for p in predictions
        if p.predicted_ms is not None and p.row.measured_ms is not None
    ]
    return errors_of(pairs, sum(bool(p.refused) for p in predictions))


def document(report: Report) -> dict[str, object]:
    """What `validate --json` prints."""
    return {
        "overall": asdict(report.overall),
        "latency": asdict(report.latency),
        "groups": {name: asdict(errors) for name, errors in report.groups.items()},
        "families": {name: asdict(errors) for name, errors in report.families.items()},
        "rows": [
            {
                "id": p.row.id,
                "predicted_ips": p.predicted_ips,
                "measured_ips": p.row.measured_ips,
                "predicted_latency_ms": p.predicted_ms,
                "measured_latency_ms": p.row.measured_ms,
                "refused": p.refused or None,
                "remarks": list(p.row.remarks),
            }
            for p in report.predictions
        ],
    }


def text(report: Report) -> str:
    """Tables of errors, the worst rows and what was refused."""
    head = ["", "n", "refused", "median", "mean", "bias", "tau", "rho"]
    rows = [head, _row("all", report.overall), _row("latency", report.latency)]
    rows += [_row(name, errors) for name, errors in sorted(report.groups.items())]
    rows += [_row(name, errors) for name, errors in sorted(report.families.items())]
    parts = [grid(rows, left=(0,)), "", "worst rows:", _worst(report.predictions)]
    refused = [f"{p.row.id}: {p.refused}" for p in report.predictions if p.refused]
    told = [f"{remark}: {', '.join(ids)}" for remark, ids in _by_remark(report.predictions)]
    parts += ["", "not as measured:", *told] if told else []
    return "\n".join([*parts, *(["", "refused:", *refused] if refused else [])])


def _by_remark(predictions: Sequence[Prediction]) -> list[tuple[str, list[str]]]:
    """Each remark with the rows that have it."""
    found: dict[str, list[str]] = {}
    for prediction in predictions:
        for remark in prediction.row.remarks:
            found.setdefault(remark, []).append(prediction.row.id)
    return list(found.items())


def _row(name: str, errors: Errors) -> list[str]:
    return [name, str(errors.n), str(errors.refused), *cells(errors)]


def cells(errors: Errors) -> list[str]:
    """Median, mean, bias, tau and rho as they are shown."""
    shares = (errors.median_ape, errors.mean_ape, errors.bias)
    ranks = (errors.kendall_tau, errors.spearman_rho)
    return [
        *("-" if share is None else f"{100 * share:.1f} %" for share in shares),
        *("-" if rank is None else f"{rank:.3f}" for rank in ranks),
    ]


def _worst(predictions: Sequence[Prediction]) -> str:
    known = sorted(compared(predictions), key=lambda item: -abs(item[1] / item[2] - 1))
    head = ["id", "graph", "cores", "instances", "batch", "set", "predicted", "measured", "error"]
    rows = [head]
    for p, predicted, measured in known[:WORST_ROWS]:
        options, run = p.row.compile, p.row.run
        knobs = (options.num_cores, run.instances, options.batch_size, run.set_size)
        error = f"{100 * (predicted / measured - 1):+.1f} %"
        numbers = [f"{predicted:,.1f}", f"{measured:,.1f}", error]
        rows.append([p.row.id, p.row.graph, *map(str, knobs), *numbers])
    return grid(rows, left=(0, 1))
