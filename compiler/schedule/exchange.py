"""What the cores of an instance must send each other before a step can start.

Counted, not guessed: for each core the part of an operand that its part of the output needs, less
what it holds already. What several cores need of the same sender goes to them in one multicast.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.extent import Region, around
from compiler.schedule.geometry import held
from compiler.schedule.partition import Split
from compiler.schedule.reads import Reads
from compiler.schedule.steps import Operand, Step, Tensor


@dataclass(frozen=True, slots=True)
class Exchange:
    """What each core sends, to how many others at once, and the most that one receives."""

    sent_bytes: int
    receivers: int
    received_bytes: int


NO_EXCHANGE = Exchange(0, 0, 0)


def exchange_for(
    reads: Reads,
    step: Step,
    operand: Operand,
    tensor: Tensor,
    splits: tuple[Split, Split],
    num_cores: int,
) -> Exchange:
    """The exchange that brings each core its part of `operand`; `splits` are held and wanted."""
    before, after = splits
    if num_cores == 1 or _dealt_alike(step, before, after):
        return NO_EXCHANGE
    rows = (tensor.first_row, tensor.end_row)
    holds = [held(rows, tensor.channels, before, core) for core in range(num_cores)]
    missing: list[tuple[int, Region, float]] = []
    for core in range(num_cores):
        made = (step.output.first_row, step.output.end_row)
        part = held(made, step.output.channels, after, core)
        wanted, share = reads.needed(step, operand, tensor, part)
        if not wanted.within(holds[core]):
            missing.append((core, wanted, share))
    return _counted(tensor, holds, missing) if missing else NO_EXCHANGE


def _dealt_alike(step: Step, before: Split, after: Split) -> bool:
    """Whether whole samples are with the same core before and after, which needs no counting."""
    alike = before.rows == after.rows and before.channels == after.channels == 1
    return alike and step.samplewise and bool(before.samples and after.samples)


def _counted(
    tensor: Tensor, holds: list[Region], missing: list[tuple[int, Region, float]]
) -> Exchange:
    received = [
        tensor.bytes_of(wanted) * share - tensor.bytes_of(wanted.meet(holds[core])) * share
        for core, wanted, share in missing
    ]
    most = 0.0
    distinct = 0.0
    for sender, own in enumerate(holds):
        parts = [(own.meet(w), s) for core, w, s in missing if core != sender and own.meet(w).area]
        sent = min(
            float(tensor.bytes_of(around([part for part, _ in parts]))),
            sum(tensor.bytes_of(part) * share for part, share in parts),
        )
        most, distinct = max(most, sent), distinct + sent
    receivers = round(sum(received) / distinct) if distinct else 1
    return Exchange(max(1, round(most)), max(1, receivers), round(max(received)))
