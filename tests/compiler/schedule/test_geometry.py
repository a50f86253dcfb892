"""Rows and columns against the elements themselves: every rule is checked by marking an array."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.schedule.extent import Extent, Region, around, boxes_of, region_of
from compiler.schedule.geometry import common_units, held, last_tile, tile
from compiler.schedule.partition import Split
from compiler.schedule.tiling import Tiling

SHAPES = st.sampled_from(range(6)).flatmap(
    lambda rank: st.tuples(*[st.sampled_from([1, 2, 3, 4, 5])] * rank)
)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    shape = draw(SHAPES)
    middle = len(shape) > 2 and draw(st.sampled_from([True, False]))
    return Extent(shape, 1 if middle else max(len(shape) - 1, 0))


@st.composite
def ranges(draw: st.DrawFn, extent: int) -> tuple[int, int]:
    """Seldom empty."""
    first = draw(st.integers(0, extent - 1))
    return first, draw(st.integers(first + draw(st.sampled_from([0, 1, 1, 1, 1, 1])), extent))


@st.composite
def regions(draw: st.DrawFn, extent: Extent) -> Region:
    return Region(*draw(ranges(extent.rows)), *draw(ranges(extent.columns)))


def row_and_column(extent: Extent) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of every element, from what the class says of them."""
    index = np.indices(extent.shape or (1,))
    if not extent.shape:
        return np.zeros((), int), np.zeros((), int)
    if extent.in_middle:
        return index[0] * extent.shape[2] + index[2], index[1]
    lead = np.zeros(extent.shape, int)
    for axis in range(len(extent.shape) - 1):
        lead = lead * extent.shape[axis] + index[axis]
    return lead, index[-1]


@given(st.data())
def test_boxes_cover_exactly_the_elements_of_a_region_and_each_once(data: st.DataObject) -> None:
    extent = data.draw(extents())
    region = data.draw(regions(extent))
    rows, columns = row_and_column(extent)
    inside = (rows >= region.row_start) & (rows < region.row_end)
    inside &= (columns >= region.column_start) & (columns < region.column_end)
    count = np.zeros(extent.shape, int)
    for box in boxes_of(extent, region):
        count[tuple(slice(*ends) for ends in box)] += 1
    assert np.array_equal(count, inside.astype(int))


@settings(max_examples=400)
@given(st.data())
def test_the_region_of_a_box_holds_all_its_elements_under_any_shape(data: st.DataObject) -> None:
    extent = data.draw(extents())
    total = prod(extent.shape)
    first = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    second = data.draw(st.sampled_from([d for d in range(1, first + 1) if first % d == 0]))
    shape = data.draw(st.sampled_from([extent.shape, (total // first, first // second, second)]))
    box = tuple(data.draw(ranges(extent)) for extent in shape)
    region = region_of(extent, shape, box)
    marked = np.zeros(shape, bool)
    marked[tuple(slice(*ends) for ends in box)] = True
    rows, columns = row_and_column(extent)
    wanted = marked.reshape(extent.shape)
    assert np.all((rows[wanted] >= region.row_start) & (rows[wanted] < region.row_end))
    assert np.all((columns[wanted] >= region.column_start) & (columns[wanted] < region.column_end))


SPLITS = st.builds(Split, st.integers(1, 5), st.integers(1, 4), st.integers(0, 6))


@given(
    split=SPLITS,
    rows=st.integers(1, 40),
    columns=st.integers(1, 200),
    tiling=st.builds(Tiling, st.integers(1, 6), st.integers(1, 5)),
    parts=st.integers(1, 3),
)
def test_cores_and_tiles_make_every_cell_once(
    split: Split, rows: int, columns: int, tiling: Tiling, parts: int
) -> None:
    count = np.zeros((rows * parts, columns), int)
    for core in range(split.cores + 1):
        part = held((0, rows * parts), columns, split, core)
        units = common_units([part, Region(0, parts, 0, 1)])
        for index in range(tiling.count):
            region = tile(part, tiling, units, index)
            count[region.row_start : region.row_end, region.column_start : region.column_end] += 1
    assert np.all(count == 1)


@given(
    split=SPLITS,
    rows=st.integers(1, 40),
    columns=st.integers(1, 200),
    tiling=st.builds(Tiling, st.integers(1, 6), st.integers(1, 5)),
    data=st.data(),
)
def test_the_last_tile_is_the_last_that_shares_a_cell(
    split: Split, rows: int, columns: int, tiling: Tiling, data: st.DataObject
) -> None:
    wanted = data.draw(regions(Extent((rows, columns), 1)))
    core = data.draw(st.integers(0, split.cores - 1))
    part = held((0, rows), columns, split, core)
    units = common_units([part])
    touched = [
        index
        for index in range(tiling.count)
        if tile(part, tiling, units, index).meet(wanted).area
    ]
    expected = -1
    if touched:
        # Tiles count row by row: the one in the last row and the last column that is touched.
        row = max(index // tiling.channels for index in touched)
        column = max(index % tiling.channels for index in touched)
        expected = row * tiling.channels + column
    assert last_tile(part, tiling, units, wanted) == expected


@given(st.lists(regions(Extent((9, 9), 1)), max_size=4))
def test_around_is_the_smallest_cover(parts: list[Region]) -> None:
    cover = around(parts)
    assert all(part.within(cover) for part in parts)
    cells = [part for part in parts if part.area]
    if cells:
        assert cover.row_start == min(part.row_start for part in cells)
        assert cover.column_end == max(part.column_end for part in cells)
    else:
        assert cover.area == 0
