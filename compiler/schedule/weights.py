"""When each piece of the weights may be read ahead of its use.

Weights pass through a ring in VTCM whose size changes with what the activations leave free. A
piece may be read once the pieces in use and in flight before it leave room, that is once an
earlier piece has been consumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.plan import PlannedStep
from compiler.schedule.residency import Residency


@dataclass(frozen=True, slots=True)
class Chunk:
    """The weights of one tile of a step, `size_bytes` on each core that needs them.

    `after` is the index of the chunk whose consumption makes room for this one; -1: none.
    """

    step: int
    tile: int
    size_bytes: int
    after: int


def plan_chunks(planned: tuple[PlannedStep, ...], residency: Residency) -> tuple[Chunk, ...]:
    """All pieces that are read during an inference, in the order of their use."""
    if residency.weights_resident:
        return ()
    wanted = [
        (index, tile, plan.chunk_bytes)
        for index, plan in enumerate(planned)
        if plan.step.weight_bytes
        for tile in _loading_tiles(plan)
    ]
    free = [memory.free_bytes for memory in residency.steps]
    chunks: list[Chunk] = []
    oldest, in_ring = 0, 0
    for number, (index, tile, size) in enumerate(wanted):
        in_ring += size
        while oldest < number and in_ring > min(free[wanted[oldest][0] : index + 1]):
            in_ring -= wanted[oldest][2]
            oldest += 1
        chunks.append(Chunk(index, tile, size, oldest - 1))
    return tuple(chunks)


def _loading_tiles(plan: PlannedStep) -> range:
    """Tiles that bring weights: each, unless all of them share the one piece of the first."""
    return range(plan.tiling.count) if plan.tiling.channels > 1 else range(1)
