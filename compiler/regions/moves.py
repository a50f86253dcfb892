"""Operators that only move elements."""

from __future__ import annotations

from compiler.regions.asked import Asked
from compiler.regions.box import Box, broadcast, clamp, hull, is_empty, reshaped


def same(asked: Asked) -> Box | None:
    """The same elements of the first input; all of the others."""
    return asked.box if asked.index == 0 else None


def expand(asked: Asked) -> Box | None:
    """Expand: as an operand that is broadcast."""
    return broadcast(asked.box, asked.shape) if asked.index == 0 else None


def reshape(asked: Asked) -> Box | None:
    """The same bytes under another shape."""
    return reshaped(asked.box, asked.made, asked.shape) if asked.index == 0 else None


def transpose(asked: Asked) -> Box | None:
    """Transpose: dims in another order, the reverse one if none is given."""
    rank = len(asked.shape)
    perm = asked.node.ints("perm", tuple(reversed(range(rank))))
    return tuple(asked.box[perm.index(at)] for at in range(rank))


def concat(asked: Asked) -> Box | None:
    """Concat: what of the range lies in this input."""
    axis = asked.axis(1, len(asked.shape))
    start = sum(asked.shape_of(index)[axis] for index in range(asked.index))
    low, high = asked.box[axis]
    own = clamp(low - start, high - start, asked.shape[axis])
    return tuple(own if at == axis else ends for at, ends in enumerate(asked.box))


def split(asked: Asked) -> Box | None:
    """Split: the range of one output behind those before it."""
    if asked.index > 0:
        return None
    axis = asked.axis(0, len(asked.shape))
    before = asked.node.outputs[: asked.output]
    if any(name not in asked.types for name in before):
        return None
    start = sum(asked.types[name].shape[axis] for name in before)
    low, high = asked.box[axis]
    own = (low + start, high + start)
    return tuple(own if at == axis else ends for at, ends in enumerate(asked.box))


def slice_(asked: Asked) -> Box | None:
    """Slice with constant ends; attributes before opset 10, inputs since."""
    if asked.index > 0 or is_empty(asked.box):
        return None
    rank = len(asked.shape)
    starts = asked.node.ints("starts") or asked.values(1)
    if starts is None:
        return None
    axes = asked.node.ints("axes") or asked.values(3) or tuple(range(len(starts)))
    steps = asked.values(4) or (1,) * len(starts)
    if (asked.has(3) and asked.values(3) is None) or (asked.has(4) and asked.values(4) is None):
        return None
    box = list(asked.box)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        at = axis % rank
        first = _first(start, step, asked.shape[at])
        low, high = asked.box[at]
        box[at] = hull(first + step * low, first + step * (high - 1))
    return tuple(box)


def _first(start: int, step: int, extent: int) -> int:
    """The position that a slice begins at."""
    start += extent if start < 0 else 0
    return min(max(start, 0), extent if step > 0 else extent - 1)


def pad(asked: Asked) -> Box | None:
    """Pad: shifted, cut to what is there; other modes than constant need the whole axis."""
    if asked.index > 0:
        return None
    rank = len(asked.shape)
    pads = asked.node.ints("pads") or asked.values(1)
    if pads is None or (asked.has(3) and asked.values(3) is None):
        return None
    axes = [axis % rank for axis in asked.values(3) or range(rank)]
    box = list(asked.box)
    for number, at in enumerate(axes):
        before, after = pads[number], pads[len(axes) + number]
        low, high = asked.box[at]
        box[at] = clamp(low - before, high - before, asked.shape[at])
        if asked.node.str("mode", "constant") != "constant" and (before or after):
            box[at] = (0, asked.shape[at])
    return tuple(box)


def tile(asked: Asked) -> Box | None:
    """Tile: a dim that is not repeated keeps its range."""
    if asked.index > 0:
        return None
    return tuple(
        ends if made == extent else (0, extent)
        for ends, made, extent in zip(asked.box, asked.made, asked.shape, strict=True)
    )


def gather(asked: Asked) -> Box | None:
    """Gather: any position of the axis, the same range of the other dims."""
    data, indices = asked.shape_of(0), asked.shape_of(1)
    axis = asked.axis(0, len(data))
    if asked.index == 1:
        return asked.box[axis : axis + len(indices)]
    return (*asked.box[:axis], (0, data[axis]), *asked.box[axis + len(indices) :])


def gather_elements(asked: Asked) -> Box | None:
    """GatherElements: any position of the axis at the same place in the other dims."""
    if asked.index == 1:
        return asked.box
    axis = asked.axis(0, len(asked.shape))
    return tuple(
        (0, extent) if at == axis else asked.box[at] for at, extent in enumerate(asked.shape)
    )
