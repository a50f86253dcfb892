"""Boxes of elements: a half-open range for each dim."""

from __future__ import annotations

Box = tuple[tuple[int, int], ...]
"""The ranges of all dims, ends exclusive; `()` is a scalar's."""


def whole(shape: tuple[int, ...]) -> Box:
    """All elements of a shape."""
    return tuple((0, extent) for extent in shape)


def is_empty(box: Box) -> bool:
    """Whether a box holds no element."""
    return any(low >= high for low, high in box)


def hull(first: int, second: int) -> tuple[int, int]:
    """The range that covers two positions."""
    return min(first, second), max(first, second) + 1


def clamp(low: int, high: int, extent: int) -> tuple[int, int]:
    """A range cut to the positions that a dim has; empty ranges stay empty."""
    low, high = max(0, min(low, extent)), max(0, min(high, extent))
    return low, max(low, high)


def broadcast(box: Box, shape: tuple[int, ...]) -> Box:
    """What an operand of `shape` gives to a box of the result that it is broadcast to."""
    skipped = len(box) - len(shape)
    return tuple(
        (0, extent) if extent == 1 else box[skipped + at] for at, extent in enumerate(shape)
    )


def reshaped(box: Box, shape: tuple[int, ...], target: tuple[int, ...]) -> Box:
    """The smallest box under `target` that holds a box of the same elements under `shape`.

    Leading dims that both shapes share keep their ranges; the rest is taken end to end.
    """
    if is_empty(box):
        return tuple((0, 0) for _ in target)
    shared = 0
    while shared < min(len(shape), len(target)) and shape[shared] == target[shared]:
        shared += 1
    low = high = 0
    for extent, (first, end) in zip(shape[shared:], box[shared:], strict=True):
        low, high = low * extent + first, high * extent + end - 1
    return (*box[:shared], *_around(target[shared:], low, high))


def _around(dims: tuple[int, ...], first: int, last: int) -> Box:
    """The smallest box that holds the positions from `first` to `last` of dims end to end."""
    found: list[tuple[int, int]] = []
    inner = 1
    for extent in dims:
        inner *= extent
    spread = False
    for extent in dims:
        inner //= max(extent, 1)
        low, high = first // inner % extent, last // inner % extent
        found.append((0, extent) if spread else (low, high + 1))
        spread = spread or low != high
    return tuple(found)
