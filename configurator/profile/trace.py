"""A trace for Perfetto (ui.perfetto.dev) or chrome://tracing: runs as processes, lanes as threads.

The format is the JSON of "Trace Event Format" (Google, catapult project): complete events with
times in microseconds. Times are cut to whole nanoseconds, which is what Perfetto counts in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from configurator.errors import ToolError
from runtime_sim.profile.lanes import Lane, lanes_of, window_of
from runtime_sim.profile.profile import Profile

_PS_PER_NS = 1000
_NS_PER_US = 1000

Event = dict[str, object]


def write_trace(path: Path, runs: Sequence[tuple[str, Profile]], inferences: int) -> None:
    """Runs on one time axis, each with its title, from the launch of one of their inferences."""
    document = {
        "displayTimeUnit": "ns",
        "traceEvents": trace_events(runs, inferences),
    }
    try:
        path.write_text(json.dumps(document, separators=(",", ":")), encoding="ascii")
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error


def trace_events(runs: Sequence[tuple[str, Profile]], inferences: int) -> list[Event]:
    """Names first, then spans in order of their begins."""
    names: list[Event] = []
    spans: list[tuple[int, int, Event]] = []
    for process, (title, found) in enumerate(runs, start=1):
        names.append(_name(process, 0, "process_name", name=title))
        names.append(_name(process, 0, "process_sort_index", sort_index=process))
        for thread, lane in enumerate(lanes_of(found, window_of(found, inferences)), start=1):
            names.append(_name(process, thread, "thread_name", name=lane.name))
            names.append(_name(process, thread, "thread_sort_index", sort_index=thread))
            spans += _events(process, thread, lane)
    spans.sort(key=lambda span: span[:2])
    return names + [event for _, _, event in spans]


def _name(process: int, thread: int, what: str, **values: object) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": values}


def _events(process: int, thread: int, lane: Lane) -> Iterator[tuple[int, int, Event]]:
    """Begin in nanoseconds, thread, event."""
    for span in lane.spans:
        start_ns, end_ns = span.start_ps // _PS_PER_NS, span.end_ps // _PS_PER_NS
        yield (
            start_ns,
            thread,
            {
                "ph": "X",
                "pid": process,
                "tid": thread,
                "ts": start_ns / _NS_PER_US,
                "dur": (end_ns - start_ns) / _NS_PER_US,
                "name": span.name,
                "cat": _category(lane),
                "args": dict(span.details),
            },
        )


def _category(lane: Lane) -> str:
    return "core" if lane.name.startswith("core ") else "host"
