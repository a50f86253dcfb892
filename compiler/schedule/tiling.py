"""Into how many tiles each core's part of a step is cut, and along which axis."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.partition import Split
from compiler.schedule.steps import BLOCK, MatrixWork, Step, StepKind

WEIGHT_TILE_BYTES = 192 << 10
"""Most bytes of weights in one tile: 128 outputs of 768 inputs. BERT-base's device profile shows
201 KB on average (83,189 KB in 413 copies)."""

TILE_BYTES = 768 << 10
"""Most bytes of output in one tile: 768 KB is the largest mean in BERT-base's device profile
(layer norm, transpose and softmax: 18,432 KB in 24 operations)."""

MIN_TILE_BYTES = 16 << 10
"""assumed: below this a further overlap split costs more in task overhead than it overlaps."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A grid of tiles on each core, rows outermost: `rows` x `channels` of about equal size."""

    rows: int
    channels: int = 1

    @property
    def count(self) -> int:
        """Tiles in all."""
        return self.rows * self.channels


def tile_matrix(
    work: MatrixWork, weight_bytes: int, output_bytes: int, split: Split, ols: int
) -> Tiling:
    """Tiles of a product on one core: by output channels where its weights need several."""
    rows, outputs = split.largest(work.rows), -(-work.outputs // split.channels)
    core_weights = -(-weight_bytes // split.channels)
    core_output = split.core_largest(output_bytes)
    wanted = max(1, -(-core_output // TILE_BYTES))
    chunks = -(-core_weights // WEIGHT_TILE_BYTES)
    overlap = overlap_split(core_output // wanted, ols)
    if chunks > 1:
        return Tiling(1, _at_most(max(chunks, wanted * overlap), outputs))
    return Tiling(_at_most(wanted * overlap, rows))


def tile_vector(step: Step, split: Split, before: Tiling | None, ols: int) -> Tiling:
    """Tiles of vector work on one core, along the axis of the tiles that it reads."""
    core_bytes = split.core_largest(max(step.output.size_bytes, step.host_bytes))
    wanted = max(1, -(-core_bytes // TILE_BYTES))
    count = wanted * overlap_split(core_bytes // wanted, ols)
    if step.kind is not StepKind.VECTOR or before is None:
        return Tiling(count)
    return Tiling(1, count) if before.channels > 1 else Tiling(count)


def vector_stride(core_bytes: int, tiling: Tiling, ols: int) -> int:
    """How many tiles of a product the vector work behind it takes at a time.

    BERT-base's device profile shows 18 products a vector operation behind them: HVX waits for
    several pieces of weights, and a higher ols makes it wait for fewer.
    """
    wanted = -(-core_bytes // TILE_BYTES)
    return max(1, tiling.count // (wanted * overlap_split(core_bytes // max(wanted, 1), ols)))


def overlap_split(tile_bytes: int, ols: int) -> int:
    """How many pieces a tile is cut into for overlap: up to `ols`, while pieces stay worth it."""
    return max(1, min(ols, tile_bytes // MIN_TILE_BYTES))


def piece(total: int, count: int, index: int, pieces: int = 1) -> int:
    """The size of `pieces` pieces from `index` on when `total` is cut evenly into `count`."""
    return total * (index + pieces) // count - total * index // count


def _at_most(count: int, extent: int) -> int:
    return max(1, min(count, -(-extent // BLOCK)))
