"""Operators that only move elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.execute.work import Work
from compiler.ir.graph import Array
from compiler.regions import whole


def _reshape(work: Work) -> Array:
    """The box's elements, wherever they lie in the input."""
    shape = work.type(0).shape
    if work.box == whole(work.made.shape):
        return work.all_of(0).reshape(work.made.shape)
    part = work.part(0)
    values = work.read(0, part)
    ranges = [np.arange(*ends) for ends in work.box]
    if not ranges:
        return values.reshape(())
    flat = np.ravel_multi_index(np.meshgrid(*ranges, indexing="ij"), work.made.shape)
    if not shape:
        return values.reshape(work.shape)
    index = np.unravel_index(flat, shape)
    return values[tuple(at - ends[0] for at, ends in zip(index, part, strict=True))]


def _transpose(work: Work) -> Array:
    rank = len(work.made.shape)
    return np.transpose(work.operand(0), work.node.ints("perm", tuple(reversed(range(rank)))))


def _concat(work: Work) -> Array:
    axis = work.node.int("axis", 1) % len(work.made.shape)
    return np.concatenate(work.operands(), axis=axis)


def _split(work: Work) -> Array:
    return work.operand(0)


def _expand(work: Work) -> Array:
    return np.broadcast_to(work.operand(0), work.shape)


def _slice(work: Work) -> Array:
    if 0 in work.shape:
        return np.zeros(work.shape, work.dtype)
    rank = len(work.made.shape)
    starts = work.ints("starts", 1) or ()
    axes = work.ints("axes", 3) or tuple(range(len(starts)))
    steps = work.ints("steps", 4) or (1,) * len(starts)
    part = work.part(0)
    value = work.read(0, part)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        at, extent = axis % rank, work.type(0).shape[axis % rank]
        first = start + extent if start < 0 else start
        first = min(max(first, 0), extent if step > 0 else extent - 1)
        value = np.take(value, first + step * np.arange(*work.box[at]) - part[at][0], axis=at)
    return value


def _pad(work: Work) -> Array | None:
    mode = work.node.str("mode", "constant")
    rank = len(work.made.shape)
    pads = work.ints("pads", 1) or ()
    axes = [axis % rank for axis in work.ints("axes", 3) or range(rank)]
    part = work.part(0)
    value = work.read(0, part)
    if mode != "constant":
        return _reflected(work, value, mode, dict(zip(axes, pads, strict=False)))
    fill = work.node.float("value", 0.0)
    fill = work.all_of(2).reshape(-1)[0] if work.has(2) and work.type(2).elements else fill
    result = np.full(work.shape, fill, dtype=value.dtype)
    befores = dict(zip(axes, pads, strict=False))
    at = []
    for axis, (low, high) in enumerate(part):
        start = low + befores.get(axis, 0) - work.box[axis][0]
        at.append(slice(start, start + high - low) if high > low else slice(0, 0))
    result[tuple(at)] = value
    return result


def _reflected(work: Work, value: Array, mode: str, befores: dict[int, int]) -> Array | None:
    """Positions outside the input mirrored, clamped or wrapped into it."""
    for axis, extent in enumerate(work.type(0).shape):
        if value.shape[axis] != extent:
            continue  # an axis without padding: the part is the box already
        at = np.arange(*work.box[axis]) - befores.get(axis, 0)
        if mode == "edge":
            index = np.clip(at, 0, extent - 1)
        elif mode == "wrap":
            index = at % extent
        else:
            period = max(2 * (extent - 1), 1)
            index = np.abs((at + extent - 1) % period - (extent - 1))
        value = np.take(value, index, axis=axis)
    return value


def _tile(work: Work) -> Array:
    value = work.operand(0)
    for axis, (extent, made) in enumerate(zip(work.type(0).shape, work.made.shape, strict=True)):
        if extent != made:
            value = np.take(value, np.arange(*work.box[axis]) % extent, axis=axis)
    return value


def _gather(work: Work) -> Array:
    data = work.operand(0)
    axis = work.node.int("axis", 0) % data.ndim
    extent = work.type(0).shape[axis]
    index = work.operand(1).astype(np.int64)
    return np.take(data, np.where(index < 0, index + extent, index), axis=axis)


def _gather_elements(work: Work) -> Array:
    data = work.operand(0)
    axis = work.node.int("axis", 0) % data.ndim
    extent = work.type(0).shape[axis]
    index = work.operand(1).astype(np.int64)
    return np.take_along_axis(data, np.where(index < 0, index + extent, index), axis=axis)


def _trilu(work: Work) -> Array:
    value = work.operand(0)
    offset = int(work.all_of(1).reshape(-1)[0]) if work.has(1) else 0
    rows = np.arange(*work.box[-2])[:, None]
    distance = np.arange(*work.box[-1])[None, :] - rows
    kept = distance >= offset if work.node.int("upper", 1) else distance <= offset
    return np.where(kept, value, np.zeros((), value.dtype))


KERNELS: dict[str, Callable[[Work], Array | None]] = {
    "Identity": _reshape,
    "Dropout": lambda work: None if work.output else _reshape(work),
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "View": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Trilu": _trilu,
}
