"""Which inferences are measured, and the files that show them."""

from __future__ import annotations

import numpy as np

from compiler.program import Program
from configurator.card_run import CardRun
from configurator.errors import UsageError
from configurator.qaic_runner.flags import LATENCY, STATS, STREAMS
from configurator.qaic_runner.latency import latency_text
from configurator.qaic_runner.opstats import OperationTimes, opstats_text
from configurator.qaic_runner.request import Profile
from configurator.qaic_runner.stages import I64, Stages
from configurator.qaic_runner.writing import write_file
from configurator.tables import one_line

_MOST_ROWS = 1_000_000
"""assumed: what is still read as a table; such a file has about 150 MB."""


def check_kinds(profile: Profile) -> None:
    """Raise `UsageError` for what is not written here."""
    for kind in profile.kinds:
        if kind not in (*LATENCY, *STATS):
            raise UsageError(
                f"--aic-profiling-type={kind}: traces are not written here; "
                f"{', '.join((*LATENCY, *STATS))} are"
            )


def sampled(profile: Profile, ran: CardRun) -> tuple[I64, ...]:
    """The inferences of each activation that are measured."""
    choose = _streamed if profile.asks_for(STREAMS) else _counted
    return tuple(choose(profile, ran, count) for count in ran.counts)


def _counted(profile: Profile, ran: CardRun, count: int) -> I64:
    return _numbers(profile.first, min(profile.first + profile.most, count), 1)


def _streamed(profile: Profile, ran: CardRun, count: int) -> I64:
    stream = profile.stream
    first, end = ran.asked_before(stream.delay_s), count
    if stream.duration_s is not None:
        end = min(count, ran.asked_before(stream.delay_s + stream.duration_s))
    return _numbers(first, end, stream.stride)


def _numbers(first: int, end: int, stride: int) -> I64:
    rows = (end - first) // stride
    if rows > _MOST_ROWS:
        raise UsageError(
            f"{rows:,} inferences of an activation would be measured, {_MOST_ROWS:,} are at "
            "most; lower --aic-profiling-num-samples or --aic-profiling-duration"
        )
    return np.arange(first, end, stride)


def write_latencies(
    profile: Profile,
    program: Program,
    ran: CardRun,
    chosen: tuple[I64, ...],
    stages: Stages,
    device_batch_size: int | None,
) -> None:
    """One file an activation; see `latency_text` for `device_batch_size`."""
    for activation, numbers in enumerate(chosen):
        title = one_line(
            f"{program.model_name}: activation {activation} of {len(chosen)}, "
            f"batch {ran.batch_size}, set size {ran.options.set_size}"
        )
        text = latency_text(title, numbers, stages, device_batch_size)
        name = f"aic-profiling-program-{activation}-latency.txt"
        write_file(profile.folder / name, text.encode("utf-8", "surrogateescape"))


def write_statistics(profile: Profile, chosen: tuple[I64, ...], times: OperationTimes) -> None:
    """One file an activation, of its first measured inference: the others are like it."""
    content = opstats_text(times).encode("utf-8", "surrogateescape")
    for activation, numbers in enumerate(chosen):
        for number in numbers[:1]:
            name = f"aic-profiling-program-0-activation-{activation}-inf-{number}.txt"
            write_file(profile.folder / name, content)
