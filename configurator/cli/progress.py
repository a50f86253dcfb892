"""Progress of a search on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from configurator.records import TrialRow

# assumed: often enough to see that it lives, seldom enough for a log file.
_SECONDS_BETWEEN_LINES = 5.0

OnTrial = Callable[[TrialRow], None]


@contextmanager
def progress(total: int, done: int, *, quiet: bool) -> Iterator[OnTrial]:
    """A callback for each trial of `total`, of which `done` are stored already.

    On a terminal there is always a bar; `quiet` keeps anything else silent.
    """
    if sys.stderr.isatty():
        with _bar(total, done) as on_trial:
            yield on_trial
    elif quiet:
        yield lambda row: None
    else:
        yield Lines(total, done, time.monotonic)


class Lines:
    """Prints a line with count, time left and best rate, at most every few seconds."""

    def __init__(self, total: int, done: int, clock: Callable[[], float]) -> None:
        self._total = total
        self._done_before = self._done = done
        self._clock = clock
        self._began = self._printed = clock()
        self._best = 0.0

    def __call__(self, row: TrialRow) -> None:
        """Count `row`; print where the last line is old enough."""
        self._done += 1
        self._best = max(self._best, _rate(row))
        now = self._clock()
        if now - self._printed >= _SECONDS_BETWEEN_LINES:
            self._printed = now
            print(self._line(now), file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        each_s = (now - self._began) / (self._done - self._done_before)
        left_s = max(0, self._total - self._done) * each_s
        return (
            f"trial {self._done} of {self._total}, about {left_s:.0f} s left, "
            f"highest so far {self._best:,.0f} inf/s"
        )


@contextmanager
def _bar(total: int, done: int) -> Iterator[OnTrial]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("trials"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    best = 0.0
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total, completed=done)

        def on_trial(row: TrialRow) -> None:
            nonlocal best
            best = max(best, _rate(row))
            shown.update(task, advance=1, description=f"highest {best:,.0f} inf/s")

        yield on_trial


def _rate(row: TrialRow) -> float:
    return row.measurement.inferences_per_s if row.measurement else 0.0
