"""What ran when: lanes of spans for a few inferences of the steady state, for a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from compiler.program import Engine
from runtime_sim.device.work import PS_PER_S
from runtime_sim.profile.operations import Operation, operations_of, work_of
from runtime_sim.profile.passes import Pass
from runtime_sim.profile.path import PARTS
from runtime_sim.profile.profile import Profile
from runtime_sim.profile.stages import Stage

_US_PER_S = 10**6
_PS_PER_US = PS_PER_S // _US_PER_S


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took from `start_ps` to `end_ps`, and what else is to say about it."""

    name: str
    start_ps: int
    end_ps: int
    details: tuple[tuple[str, str | int | float], ...] = ()


@dataclass(frozen=True, slots=True)
class Lane:
    """Spans of one engine or stage, in order; none overlaps the next."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is shown, of the recording; spans count from its start."""

    start_ps: int
    end_ps: int

    def cut(self, spans: Iterable[Span]) -> Iterator[Span]:
        """What lies inside; what is cut tells its whole length."""
        for span in spans:
            start, end = max(span.start_ps, self.start_ps), min(span.end_ps, self.end_ps)
            if start >= end:
                continue
            details = span.details
            if end - start < span.end_ps - span.start_ps:
                whole_us = (span.end_ps - span.start_ps) / _PS_PER_US
                details = (*details, ("whole_us", whole_us))
            yield Span(span.name, start - self.start_ps, end - self.start_ps, details)


def window_of(profile: Profile, inferences: int) -> Window:
    """From the launch of one inference to that of another, at most `inferences` later."""
    first = profile.recording.warmup
    last = first + min(inferences, profile.inferences) - 1
    launched, ended = profile.borders[Stage.LAUNCH], profile.borders[Stage.EXECUTE + 1]
    end_ps = int(launched[last + 1]) or int(ended[last])
    return Window(int(launched[first]), end_ps)


def lanes_of(profile: Profile, window: Window) -> tuple[Lane, ...]:
    """The host's stages, the critical path, and each engine of each core.

    Stages that several inferences are in at a time have several lanes.
    """
    found = [lane for stage in Stage for lane in _stage_lanes(profile, window, stage)]
    passes = [one for one in profile.passes if one.ended_ps > window.start_ps]
    path = (span for one in passes for span in _path_spans(profile, one))
    return (
        *found,
        Lane("critical path", tuple(window.cut(path))),
        *_engine_lanes(profile, window, passes),
    )


def _stage_lanes(profile: Profile, window: Window, stage: Stage) -> Iterator[Lane]:
    name = stage.name.lower().replace("_", " ")
    for at, spans in enumerate(_packed(window.cut(_stage_spans(profile, stage)))):
        yield Lane(name if at == 0 else f"{name} {at + 1}", tuple(spans))


def _stage_spans(profile: Profile, stage: Stage) -> Iterator[Span]:
    """Those of all inferences; what the recording's end cut off lasts until then."""
    starts, ends = profile.borders[stage].tolist(), profile.borders[stage + 1].tolist()
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        end = end or profile.recording.end_ps
        if start > 0:
            yield Span(f"inference {number}", start, end, (("inference", number),))


def _packed(spans: Iterable[Span]) -> list[list[Span]]:
    """As few lanes as hold them without overlap; each goes to the first that is free."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.start_ps, span.end_ps)):
        free = next((lane for lane in lanes if lane[-1].end_ps <= span.start_ps), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


def _path_spans(profile: Profile, one: Pass) -> Iterator[Span]:
    path, layer = one.run.path, profile.program.tasks.layer
    numbers = one.run.number[path.task]
    columns = (numbers, path.part, path.start_ps, path.end_ps)
    for number, part, start, end in zip(*(each.tolist() for each in columns), strict=True):
        what = f"{PARTS[part].value}: {profile.program.layers[layer[number]].name}"
        yield Span(what, one.begun_ps + start, one.begun_ps + end, (("task", number),))


def _engine_lanes(profile: Profile, window: Window, passes: list[Pass]) -> Iterator[Lane]:
    """Of each engine that has tasks; a transfer ends here when its queue takes the next."""
    engines, cores = work_of(profile.program).engine, profile.program.tasks.core
    lanes: dict[tuple[int, Engine], list[Span]] = {}
    templates = _templates(profile)
    for one in passes:
        execution = one.run.execution
        columns = (one.run.number, execution.begun, execution.freed)
        for number, start, end in zip(*(each.tolist() for each in columns), strict=True):
            lane = lanes.setdefault((int(cores[number]), Engine(engines[number])), [])
            start_ps, end_ps = one.begun_ps + start, one.begun_ps + end
            lane.append(replace(templates[number], start_ps=start_ps, end_ps=end_ps))
    for core, engine in sorted(lanes):
        spans = tuple(window.cut(lanes[core, engine]))
        yield Lane(f"core {core} {engine.name}", spans)


def _templates(profile: Profile) -> list[Span]:
    """A span of each task, without its time."""
    program, work = profile.program, work_of(profile.program)
    operations, of_task = operations_of(program)
    columns = (program.tasks.layer, of_task, work.result_bytes, work.macs)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Span(program.layers[layer].name, 0, 0, _details(task, operations[at], size, macs))
        for task, (layer, at, size, macs) in enumerate(rows)
    ]


def _details(
    task: int, operation: Operation, size_bytes: int, macs: int
) -> tuple[tuple[str, str | int | float], ...]:
    described = (("task", task), ("operation", operation.name), ("bytes", size_bytes))
    return (*described, ("macs", macs)) if macs else described
