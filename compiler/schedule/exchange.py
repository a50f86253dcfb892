"""What the cores of an instance must send each other before a step can start.

Counted, not guessed: for each core the part of an operand that its part of the output needs, less
what it holds already. What several cores need of the same sender goes to them in one multicast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.schedule.extent import Region, around, overlap
from compiler.schedule.geometry import holdings
from compiler.schedule.partition import Split
from compiler.schedule.reads import Reads
from compiler.schedule.steps import Operand, Step, Tensor


@dataclass(frozen=True, slots=True)
class Exchange:
    """What each core sends, to how many others at once, and the most that one receives.

    `sent_bytes` has an entry a core, 0 where it has nothing that another one needs; it is empty
    where nothing is exchanged.
    """

    sent_bytes: tuple[int, ...]
    receivers: int
    received_bytes: int


NO_EXCHANGE = Exchange((), 0, 0)


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
    output = step.output
    made = holdings((output.first_row, output.end_row), output.channels, after, num_cores)
    own = holdings((tensor.first_row, tensor.end_row), tensor.channels, before, num_cores)
    wants = [reads.needed(step, operand, tensor, part) for part in made]
    missing = [
        (core, wanted, share)
        for core, (wanted, share) in enumerate(wants)
        if not wanted.within(own[core])
    ]
    return _counted(tensor, own, missing) if missing else NO_EXCHANGE


def _dealt_alike(step: Step, before: Split, after: Split) -> bool:
    """Whether whole samples are with the same core before and after, which needs no counting."""
    alike = before.rows == after.rows and before.channels == after.channels == 1
    return alike and step.samplewise and bool(before.samples and after.samples)


def _counted(
    tensor: Tensor, own: tuple[Region, ...], missing: list[tuple[int, Region, float]]
) -> Exchange:
    """Cells are counted, of which each holds the same number of bytes."""
    received = [
        (wanted.area - overlap(wanted, own[core])) * share for core, wanted, share in missing
    ]
    sent = [_sent(core, region, missing) for core, region in enumerate(own)]
    distinct = sum(sent)
    receivers = round(sum(received) / distinct) if distinct else 1
    cell_bytes = tensor.size_bytes / max(1, tensor.region.area)
    return Exchange(
        tuple(math.ceil(cells * cell_bytes) for cells in sent),
        max(1, receivers),
        round(max(received) * cell_bytes),
    )


def _sent(sender: int, own: Region, missing: list[tuple[int, Region, float]]) -> float:
    """Cells that a core sends, each of them once to all that need it."""
    if not own.area:
        return 0.0
    parts, cells = [], 0.0
    for core, wanted, share in missing:
        if core != sender and overlap(wanted, own):
            parts.append(wanted.meet(own))
            cells += overlap(wanted, own) * share
    return min(float(around(parts).area), cells) if parts else 0.0
