"""Parts of tensors in rows and columns, and the boxes of elements that they cover.

A tensor is seen as rows and columns: columns are the extent of its channel axis, rows are what a
division over cores and tiles cuts. With the channels in the middle (images) the rows are the lines
of all samples laid end to end; with the channels last they are all other dims laid end to end.

Both are named tuples, since they are the keys of most that the scheduler remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from compiler.regions import Box


class Extent(NamedTuple):
    """A tensor's shape and which of its axes holds the channels."""

    shape: tuple[int, ...]
    axis: int

    @property
    def in_middle(self) -> bool:
        """Whether the channels come before the lines."""
        return self.axis == 1 and len(self.shape) > 2

    @property
    def rows(self) -> int:
        """Rows, at least 1."""
        if self.in_middle:
            return max(1, self.shape[0] * self.shape[2])
        return max(1, prod(self.shape[:-1]))

    @property
    def columns(self) -> int:
        """Columns, at least 1."""
        return max(1, self.shape[self.axis]) if self.shape else 1


class Region(NamedTuple):
    """A rectangle of rows and columns, ends exclusive."""

    row_start: int
    row_end: int
    column_start: int
    column_end: int

    @property
    def area(self) -> int:
        """Cells; 0 for an empty region."""
        rows, columns = self.row_end - self.row_start, self.column_end - self.column_start
        return rows * columns if rows > 0 and columns > 0 else 0

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows and columns: what is left of it where rows are counted from its own first one."""
        return self.row_end - self.row_start, self.column_start, self.column_end

    def within(self, other: Region) -> bool:
        """Whether the other covers it; an empty region is within any."""
        if not self.area:
            return True
        rows = other.row_start <= self.row_start and self.row_end <= other.row_end
        return rows and (
            other.column_start <= self.column_start and self.column_end <= other.column_end
        )

    def meet(self, other: Region) -> Region:
        """What both cover."""
        return Region(
            max(self.row_start, other.row_start),
            min(self.row_end, other.row_end),
            max(self.column_start, other.column_start),
            min(self.column_end, other.column_end),
        )


def overlap(first: Region, second: Region) -> int:
    """Cells that both cover, without making a region of them."""
    rows = min(first.row_end, second.row_end) - max(first.row_start, second.row_start)
    columns = min(first.column_end, second.column_end)
    columns -= max(first.column_start, second.column_start)
    return rows * columns if rows > 0 and columns > 0 else 0


def around(parts: Sequence[Region]) -> Region:
    """The smallest region that covers all of them."""
    filled = [part for part in parts if part.area]
    if not filled:
        return Region(0, 0, 0, 0)
    return Region(
        min(part.row_start for part in filled),
        max(part.row_end for part in filled),
        min(part.column_start for part in filled),
        max(part.column_end for part in filled),
    )


def region_of(extent: Extent, shape: tuple[int, ...], box: Box) -> Region:
    """The smallest region of a tensor that holds a box of a value which lies in it as `shape`."""
    if any(low >= high for low, high in box):
        return Region(0, 0, 0, 0)
    if shape == extent.shape:
        return _own_region(extent, box)
    low, high = _flat(shape, box)
    if extent.in_middle:
        sample = prod(extent.shape[1:])
        lines = extent.shape[2]
        return Region(low // sample * lines, -(-high // sample) * lines, 0, extent.columns)
    columns = extent.columns
    rows = (low // columns, -(-high // columns))
    if rows[1] - rows[0] == 1:
        return Region(*rows, low - rows[0] * columns, high - rows[0] * columns)
    same = bool(shape) and shape[-1] == columns
    return Region(*rows, *(box[-1] if same else (0, columns)))


def _own_region(extent: Extent, box: Box) -> Region:
    if not extent.shape:
        return Region(0, 1, 0, 1)
    columns = box[extent.axis]
    if not extent.in_middle:
        low, high = _flat(extent.shape[:-1], box[:-1])
        return Region(low, high, *columns)
    lines = extent.shape[2]
    return Region(box[0][0] * lines + box[2][0], (box[0][1] - 1) * lines + box[2][1], *columns)


def _flat(shape: tuple[int, ...], box: Box) -> tuple[int, int]:
    """The range of positions that a box lies in when the dims are laid end to end."""
    low = high = 0
    for extent, (first, end) in zip(shape, box, strict=True):
        low, high = low * extent + first, high * extent + end - 1
    return low, high + 1


def box_elements(box: Box) -> int:
    """Elements of a box."""
    return prod(max(0, high - low) for low, high in box)


def boxes_of(extent: Extent, region: Region) -> tuple[Box, ...]:
    """Boxes that do not overlap and cover exactly a region of the tensor."""
    if not region.area or 0 in extent.shape:
        return ()
    if not extent.shape:
        return ((),)
    columns = (region.column_start, region.column_end)
    if not extent.in_middle:
        leads = _ranges(extent.shape[:-1], region.row_start, region.row_end)
        return tuple((*lead, columns) for lead in leads)
    shape = extent.shape
    rest = tuple((0, size) for size in shape[3:])
    pairs = _ranges((shape[0], shape[2]), region.row_start, region.row_end)
    return tuple((samples, columns, lines, *rest) for samples, lines in pairs)


def _ranges(dims: tuple[int, ...], start: int, end: int) -> tuple[Box, ...]:
    """Boxes that cover exactly the positions `start` to `end` of dims laid end to end."""
    if start >= end:
        return ()
    if not dims:
        return ((),)
    inner = prod(dims[1:])
    first, last = -(-start // inner), end // inner
    if first > last:  # within one index of the outermost dim
        at = start // inner
        within = _ranges(dims[1:], start - at * inner, end - at * inner)
        return tuple(((at, at + 1), *box) for box in within)
    head = _ranges(dims[1:], start - (first - 1) * inner, inner) if start < first * inner else ()
    tail = _ranges(dims[1:], 0, end - last * inner)
    whole = tuple((0, size) for size in dims[1:])
    return (
        *(((first - 1, first), *box) for box in head),
        *((((first, last), *whole),) if first < last else ()),
        *(((last, last + 1), *box) for box in tail),
    )
