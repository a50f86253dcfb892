"""Progress of a search on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from configurator import objective
from configurator.records import TrialRow, Workflow
from runtime_sim.measurement import Measurement

# assumed: often enough to see that it lives, seldom enough for a log file.
SECONDS_BETWEEN_LINES = 5.0

# assumed: when a user begins to wonder.
SECONDS_UNTIL_SAID = 2.0

OnTrial = Callable[[TrialRow], None]


@contextmanager
def progress(workflow: Workflow, total: int, *, quiet: bool) -> Iterator[OnTrial]:
    """A callback for each of `total` trials; a terminal always gets a bar, `quiet` or not."""
    if sys.stderr.isatty():
        with _bar(workflow, total) as on_trial:
            yield on_trial
    elif quiet:
        yield lambda row: None
    else:
        yield Lines(workflow, total, time.monotonic)


@contextmanager
def said_when_slow(text: str, *, quiet: bool) -> Iterator[None]:
    """Print `text` on stderr where what follows takes more than a moment."""
    timer = Timer(SECONDS_UNTIL_SAID, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Lines:
    """Prints a line with count, time left and best result, at most every few seconds."""

    def __init__(self, workflow: Workflow, total: int, clock: Callable[[], float]) -> None:
        self._best = Best(workflow)
        self._total = total
        self._done = 0
        self._clock = clock
        self._began = self._printed = clock()

    def __call__(self, row: TrialRow) -> None:
        """Count `row`; print where the last line is old enough."""
        self._done += 1
        self._best.see(row)
        now = self._clock()
        if now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            print(self._line(now), file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        left_s = max(0, self._total - self._done) * (now - self._began) / self._done
        return f"trial {self._done} of {self._total}, {left_s:.0f} s left, {self._best.text()}"


class Best:
    """The best result so far, as a few words."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self._held: Measurement | None = None

    def see(self, row: TrialRow) -> None:
        """Keep the better one of `row` and what is held."""
        seen, held = row.measurement, self._held
        if seen is None:
            return
        if held is None or self._score(seen) > self._score(held):
            self._held = seen

    def text(self) -> str:
        """Like `best 6,300 inf/s`, or in milliseconds where latency is what counts."""
        if self._held is None:
            return "nothing feasible yet"
        if self._workflow is Workflow.THROUGHPUT:
            return f"best {self._held.inferences_per_s:,.0f} inf/s"
        return f"best {self._held.latency.mean_s * 1e3:.3f} ms"

    def _score(self, measured: Measurement) -> float:
        return objective.score(self._workflow, measured)


@contextmanager
def _bar(workflow: Workflow, total: int) -> Iterator[OnTrial]:
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
    best = Best(workflow)
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(best.text(), total=total)

        def on_trial(row: TrialRow) -> None:
            best.see(row)
            shown.update(task, advance=1, description=best.text())

        yield on_trial


@contextmanager
def counting(total: int, what: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A callback for so many more of `total` done: a bar on a terminal, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda count: shown.update(task, advance=count)
