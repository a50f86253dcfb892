"""Which part of a tensor a core holds and a tile makes, in rows and columns.

Columns are divided in whole HMX blocks, rows wherever an even division falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from compiler.schedule.extent import Region
from compiler.schedule.partition import Split
from compiler.schedule.steps import BLOCK
from compiler.schedule.tiling import Tiling


def cut(total: int, count: int, index: int) -> int:
    """Where piece `index` begins when `total` is cut evenly into `count`."""
    return total * index // count


def block_cut(start: int, end: int, count: int, index: int) -> int:
    """Where piece `index` of columns begins, on a border of blocks counted from `start`."""
    blocks = -(-(end - start) // BLOCK)
    return min(end, start + BLOCK * cut(blocks, count, index))


def held(rows: tuple[int, int], columns: int, split: Split, core: int) -> Region:
    """What `core` has of rows `rows[0]` to `rows[1]`; nothing where it is beyond the split."""
    if core >= split.cores:
        return Region(rows[0], rows[0], 0, 0)
    group, channel = divmod(core, split.channels)
    count = rows[1] - rows[0]
    units = split.samples or count
    first, last = cut(units, split.rows, group), cut(units, split.rows, group + 1)
    return Region(
        rows[0] + count * first // units,
        rows[0] + count * last // units,
        block_cut(0, columns, split.channels, channel),
        block_cut(0, columns, split.channels, channel + 1),
    )


def tile(part: Region, tiling: Tiling, units: int, index: int, pieces: int = 1) -> Region:
    """What tiles `index` to `index + pieces` of a core's part cover; they lie along one axis.

    Rows are cut between `units` equal pieces, so that tiles of tensors with a common number of
    units cover the same share of each.
    """
    row, column = divmod(index, tiling.channels)
    rows, columns = (1, pieces) if tiling.channels > 1 else (pieces, 1)
    each = (part.row_end - part.row_start) // max(units, 1)
    return Region(
        part.row_start + each * cut(units, tiling.rows, row),
        part.row_start + each * cut(units, tiling.rows, row + rows),
        block_cut(part.column_start, part.column_end, tiling.channels, column),
        block_cut(part.column_start, part.column_end, tiling.channels, column + columns),
    )


@lru_cache(maxsize=65536)
def holdings(
    rows: tuple[int, int], columns: int, split: Split, num_cores: int
) -> tuple[Region, ...]:
    """What each core of an instance has; see `held`."""
    return tuple(held(rows, columns, split, core) for core in range(num_cores))


def common_units(parts: Sequence[Region]) -> int:
    """The largest number of equal pieces that the rows of every part divide into; at least 1."""
    return max(1, gcd(*(part.row_end - part.row_start for part in parts)))


def last_tile(part: Region, tiling: Tiling, units: int, wanted: Region) -> int:
    """The last of a part's tiles that `wanted` touches; -1 where it touches none."""
    meeting = part.meet(wanted)
    if not meeting.area:
        return -1
    each = (part.row_end - part.row_start) // units
    row = _piece_at((meeting.row_end - 1 - part.row_start) // each, units, tiling.rows)
    blocks = -(-(part.column_end - part.column_start) // BLOCK)
    block = (meeting.column_end - 1 - part.column_start) // BLOCK
    return row * tiling.channels + _piece_at(block, blocks, tiling.channels)


def _piece_at(unit: int, total: int, count: int) -> int:
    """The piece of an even cut that `unit` lies in: the last one that begins at or before it."""
    return ((unit + 1) * count - 1) // total
