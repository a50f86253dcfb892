"""The lines of results that the vendor's tools print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TITLE = "Metric,          Avg,           Min,           Max,           Std"


def stats_text(inferences: int, duration_us: int, batch_size: int) -> str:
    """The two lines after a run; `inferences` are of whole batches, the rate is of samples."""
    duration_us = max(duration_us, 1)
    rate = inferences * 1e6 / duration_us * batch_size
    return (
        " ---- Stats ----\n"
        f"InferenceCnt {inferences} TotalDuration {duration_us}us "
        f"BatchSize {batch_size} Inf/Sec {rate:.3f}"
    )


def device_text(spans_us: Mapping[str, Sequence[float]]) -> str:
    """The block of a profiled program: statistics of each metric, one row each."""
    rows = [_row(f"{name},", spans) for name, spans in spans_us.items()]
    return "\n".join(["Device Performance:", _TITLE, *rows])


def _row(name: str, spans: Sequence[float]) -> str:
    mean = sum(spans) / len(spans)
    spread = (sum((value - mean) ** 2 for value in spans) / len(spans)) ** 0.5
    cells = "".join(f"{f'{value:.3f},':<15}" for value in (mean, min(spans), max(spans)))
    return f"{name:<17}{cells}{spread:.3f}"
