"""When each piece of the weights may be read ahead of its use.

Weights pass through a ring in VTCM whose size changes with what the activations leave free. A
piece may be read once the pieces in use and in flight before it leave room, that is once an
earlier piece has been consumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.plan import Group
from compiler.schedule.residency import Residency
from compiler.schedule.tiling import piece


@dataclass(frozen=True, slots=True)
class Chunk:
    """The weights of one tile of a group's member, `size_bytes` on each core that needs them.

    `after` is the index of the chunk whose consumption makes room for this one; -1: none.
    """

    group: int
    member: int
    tile: int
    size_bytes: int
    after: int


def plan_chunks(groups: tuple[Group, ...], residency: Residency) -> tuple[Chunk, ...]:
    """All pieces that are read during an inference, in the order of their use."""
    if residency.weights_resident:
        return ()
    free = [memory.free_bytes for memory in residency.groups]
    wanted = [
        chunk
        for index, group in enumerate(groups)
        for chunk in _chunks_of(index, group, kept_whole(group, free[index]))
    ]
    chunks: list[Chunk] = []
    oldest, in_ring = 0, 0
    for number, (group, member, tile, size) in enumerate(wanted):
        in_ring += size
        while oldest < number and in_ring > min(free[wanted[oldest][0] : group + 1]):
            in_ring -= wanted[oldest][3]
            oldest += 1
        chunks.append(Chunk(group, member, tile, size, oldest - 1))
    return tuple(chunks)


def kept_whole(group: Group, free_bytes: int) -> bool:
    """Whether the pieces that a group's first row of tiles brings stay for the rows after it."""
    total = sum(member.core_weight_bytes for member in group.streaming)
    return group.tiling.rows > 1 and group.tiling.channels > 1 and total <= free_bytes


def _chunks_of(index: int, group: Group, kept: bool) -> list[tuple[int, int, int, int]]:
    """(group, member, tile, bytes) of each tile that brings weights, in the order of use.

    Each tile brings its own where tiles follow the channels; else all share the first one's.
    """
    if not group.streaming:
        return []
    tiles = group.tiling.channels if kept else group.tiling.count
    return [
        (index, number, tile, _chunk_bytes(group, number, tile))
        for tile in range(tiles)
        for number, member in enumerate(group.members)
        if member.streams_weights and (tile == 0 or brings_each(group, number))
    ]


def _chunk_bytes(group: Group, number: int, tile: int) -> int:
    """Exact bytes of one tile's weights; they add up to the member's."""
    total = group.members[number].core_weight_bytes
    if not brings_each(group, number):
        return total
    return piece(total, group.tiling.channels, tile % group.tiling.channels)


def brings_each(group: Group, number: int) -> bool:
    """Whether each tile of the group needs its own piece of that member's weights."""
    return group.tiling.channels > 1 and group.members[number].step.matrix is not None
