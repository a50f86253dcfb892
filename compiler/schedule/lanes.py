"""One member of a group on one core: which parts it makes, with what work, and what each awaits.

Nothing here depends on names, so that alike layers, and the same layer compiled again with other
options, share what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from compiler.program import TaskKind
from compiler.schedule.extent import Region
from compiler.schedule.geometry import last_tile, tile
from compiler.schedule.partition import Split
from compiler.schedule.plan import Group, PlannedStep
from compiler.schedule.reads import Reads
from compiler.schedule.steps import BLOCK, MatrixWork, Operand, VectorWork
from compiler.schedule.tiling import Tiling, piece

Work = tuple[int, int, int, int]


class Cut(NamedTuple):
    """How a group's rows and channels are cut on a core, and how many tiles a member takes."""

    tiling: Tiling
    units: int
    stride: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Per turn of the member: the first tile and how many, the region, and the tasks' work."""

    cut: Cut
    part: Region
    turns: tuple[tuple[int, int], ...]
    regions: tuple[Region, ...]
    works: tuple[tuple[tuple[TaskKind, Work], ...], ...]


def lane_of(group: Group, number: int, core: int, units: int) -> Lane:
    """The turns of a member on a core, where its rows are cut between so many units."""
    member = group.members[number]
    cut = Cut(group.tiling, units, group.stride_of(number))
    part = member.parts[core]
    turns = _turns(cut.tiling.count, cut.stride)
    step = member.step
    return Lane(
        cut,
        part,
        turns,
        _regions(part, cut),
        _works(step.matrix, step.vector, group.split, cut.tiling, cut.stride, core),
    )


@lru_cache(maxsize=4096)
def _turns(count: int, stride: int) -> tuple[tuple[int, int], ...]:
    return tuple((first, min(stride, count - first)) for first in range(0, count, stride))


@lru_cache(maxsize=16384)
def _regions(part: Region, cut: Cut) -> tuple[Region, ...]:
    turns = _turns(cut.tiling.count, cut.stride)
    return tuple(tile(part, cut.tiling, cut.units, first, pieces) for first, pieces in turns)


@lru_cache(maxsize=16384)
def _works(
    matrix: MatrixWork | None,
    vector: tuple[VectorWork, ...],
    split: Split,
    tiling: Tiling,
    stride: int,
    core: int,
) -> tuple[tuple[tuple[TaskKind, Work], ...], ...]:
    turns = _turns(tiling.count, stride)
    if matrix is not None:
        kind = TaskKind.MATMUL_INT8 if matrix.int8 else TaskKind.MATMUL
        return tuple(((kind, _product(matrix, split, tiling, core, t)),) for t, _ in turns)
    parts = [(split.core_part(each.elements, core), int(each.op)) for each in vector] or [(0, 0)]
    return tuple(
        tuple(
            (TaskKind.VECTOR, (piece(share, tiling.count, first, pieces), op, 2, 0))
            for share, op in parts
        )
        for first, pieces in turns
    )


def _product(matrix: MatrixWork, split: Split, tiling: Tiling, core: int, index: int) -> Work:
    part, channel = divmod(core, split.channels)
    row, column = divmod(index, tiling.channels)
    rows = piece(split.part(matrix.rows, part), tiling.rows, row)
    blocks = piece(-(-matrix.outputs // BLOCK), split.channels, channel)
    outputs = BLOCK * piece(blocks, tiling.channels, column)
    return rows, matrix.inputs, min(outputs, matrix.outputs), matrix.repeats


@dataclass(frozen=True, slots=True)
class Source:
    """Where an operand lies on a core: made by `maker`, whose `part` comes as `cut` says."""

    maker: PlannedStep
    part: Region
    cut: Cut


def waits_of(
    reads: Reads, member: PlannedStep, operand: Operand, lane: Lane, source: Source
) -> tuple[int, ...]:
    """Per turn, which turn of the operand's maker must be done; -1: none."""
    key: tuple[object, ...] = (
        reads.kind(member.step),
        operand.index,
        source.maker.step.output.extent,
        lane.cut,
        source.cut,
    )
    if member.step.samplewise and member.split.samples and source.maker.split.samples:
        # Each core has whole samples of its own: what counts is where a tile lies within them.
        key = (*key, lane.part.size, source.part.size)
    else:
        key = (*key, lane.part, source.part)
    found = reads.memo.get(key)
    if found is None:
        found = reads.memo[key] = tuple(
            _wait(reads, member, operand, region, source) for region in lane.regions
        )
    return found


def _wait(
    reads: Reads, member: PlannedStep, operand: Operand, region: Region, source: Source
) -> int:
    wanted, _ = reads.needed(member.step, operand, source.maker.step.output, region)
    last = last_tile(source.part, source.cut.tiling, source.cut.units, wanted)
    return last // source.cut.stride if last >= 0 else -1
