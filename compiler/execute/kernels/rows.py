"""Operators on whole rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.execute.work import Work
from compiler.ir.graph import Array


def _softmax_axes(work: Work) -> tuple[int, ...]:
    rank = len(work.made.shape)
    if work.node.opset >= 13:
        return (work.node.int("axis", -1) % rank,)
    return tuple(range(work.node.int("axis", 1) % rank, rank))


def _softmax(work: Work) -> Array:
    axes = _softmax_axes(work)
    value = work.operand(0)
    power = np.exp(value - value.max(axis=axes, keepdims=True))
    return _cut(work, power / power.sum(axis=axes, keepdims=True), axes)


def _log_softmax(work: Work) -> Array:
    axes = _softmax_axes(work)
    value = work.operand(0)
    moved = value - value.max(axis=axes, keepdims=True)
    return _cut(work, moved - np.log(np.exp(moved).sum(axis=axes, keepdims=True)), axes)


def _cut(work: Work, value: Array, axes: tuple[int, ...]) -> Array:
    """The box's range of the axes along which `value` is whole."""
    at = tuple(slice(*ends) if axis in axes else slice(None) for axis, ends in enumerate(work.box))
    return value[at]


def _axes(work: Work) -> tuple[int, ...] | None:
    """Axes of a reduction; `None`: nothing is reduced."""
    rank = len(work.type(0).shape)
    given = work.ints("axes", 1)
    if not given and work.node.int("noop_with_empty_axes", 0):
        return None
    return tuple(axis % max(rank, 1) for axis in given) if given else tuple(range(rank))


def _reduction(function: Callable[..., Array]) -> Callable[[Work], Array]:
    def kernel(work: Work) -> Array:
        axes = _axes(work)
        value = work.operand(0)
        keep = bool(work.node.int("keepdims", 1))
        return np.asarray(function(value, () if axes is None else axes, keep))

    return kernel


def _mean(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(value.mean(axis=axes, keepdims=keep), dtype=value.dtype)


def _sum(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(value.sum(axis=axes, keepdims=keep), dtype=value.dtype)


def _product(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(value.prod(axis=axes, keepdims=keep), dtype=value.dtype)


def _largest(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    low = False if value.dtype.kind == "b" else _limits(value)[0]
    return np.asarray(value.max(axis=axes, keepdims=keep, initial=low))


def _smallest(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    high = True if value.dtype.kind == "b" else _limits(value)[1]
    return np.asarray(value.min(axis=axes, keepdims=keep, initial=high))


def _limits(value: Array) -> tuple[float | int, float | int]:
    if value.dtype.kind == "f":
        return -np.inf, np.inf
    return int(np.iinfo(value.dtype).min), int(np.iinfo(value.dtype).max)


def _l1(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return _sum(np.abs(value), axes, keep)


def _l2(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.sqrt(_sum(value * value, axes, keep)), dtype=value.dtype)


def _log_sum(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.log(_sum(value, axes, keep)), dtype=value.dtype)


def _log_sum_exp(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if value.size == 0:
        return _log_sum(np.exp(value), axes, keep)
    top = value.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0).astype(value.dtype)
    total = np.log(np.exp(value - top).sum(axis=axes, keepdims=True)) + top
    return np.asarray(total if keep else np.squeeze(total, axes), dtype=value.dtype)


def _sum_square(value: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return _sum(value * value, axes, keep)


def _arg(largest: bool) -> Callable[[Work], Array]:
    def kernel(work: Work) -> Array:
        value = work.operand(0)
        axis = work.node.int("axis", 0) % max(value.ndim, 1)
        function = np.argmax if largest else np.argmin
        if work.node.int("select_last_index", 0):
            found = value.shape[axis] - 1 - function(np.flip(value, axis), axis=axis)
        else:
            found = function(value, axis=axis)
        kept = np.expand_dims(found, axis) if work.node.int("keepdims", 1) else found
        return np.asarray(kept, dtype=np.int64)

    return kernel


def _layer_norm(work: Work) -> Array | None:
    if work.output:
        return None
    value = work.operand(0)
    axis = work.node.int("axis", -1) % value.ndim
    axes = tuple(range(axis, value.ndim))
    centred = value - value.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    return _scaled(work, centred / np.sqrt(variance + work.node.float("epsilon", 1e-5)), axes)


def _rms_norm(work: Work) -> Array:
    value = work.operand(0)
    axes = tuple(range(work.node.int("axis", -1) % value.ndim, value.ndim))
    square = (value * value).mean(axis=axes, keepdims=True)
    return _scaled(work, value / np.sqrt(square + work.node.float("epsilon", 1e-5)), axes)


def _scaled(work: Work, value: Array, axes: tuple[int, ...]) -> Array:
    value = value * work.all_of(1)
    return _cut(work, value + work.all_of(2) if work.has(2) else value, axes)


def _instance_norm(work: Work) -> Array:
    value = work.operand(0)
    axes = tuple(range(2, value.ndim))
    centred = value - value.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    normal = centred / np.sqrt(variance + work.node.float("epsilon", 1e-5))
    shape = (1, -1, *(1 for _ in axes))
    result = normal * work.operand(1).reshape(shape) + work.operand(2).reshape(shape)
    return _cut(work, result, axes)


def _batch_norm(work: Work) -> Array | None:
    if work.node.int("training_mode", 0) or work.output or len(work.box) < 2:
        return None
    shape = (1, -1, *(1 for _ in work.box[2:]))
    scale, bias, mean, variance = (work.operand(at).reshape(shape) for at in range(1, 5))
    factor = scale / np.sqrt(variance + work.node.float("epsilon", 1e-5))
    return (work.operand(0) - mean) * factor + bias


def _cumsum(work: Work) -> Array:
    axis = int(work.all_of(1).reshape(-1)[0]) % len(work.box)
    value = work.operand(0)
    value = np.flip(value, axis) if work.node.int("reverse", 0) else value
    total = np.cumsum(value, axis=axis, dtype=value.dtype)
    total = total - value if work.node.int("exclusive", 0) else total
    total = np.flip(total, axis) if work.node.int("reverse", 0) else total
    return _cut(work, total, (axis,))


def _lrn(work: Work) -> Array:
    value = work.operand(0)
    size = work.node.int("size", 1)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    square = np.pad(value * value, [(0, 0), (before, after)] + [(0, 0)] * (value.ndim - 2))
    count = value.shape[1]
    total = sum(square[:, tap : tap + count] for tap in range(size))
    scale = work.node.float("bias", 1.0) + work.node.float("alpha", 1e-4) / size * total
    return _cut(work, value / scale ** work.node.float("beta", 0.75), (1,))


KERNELS: dict[str, Callable[[Work], Array | None]] = {
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "ReduceMean": _reduction(_mean),
    "ReduceSum": _reduction(_sum),
    "ReduceProd": _reduction(_product),
    "ReduceMax": _reduction(_largest),
    "ReduceMin": _reduction(_smallest),
    "ReduceL1": _reduction(_l1),
    "ReduceL2": _reduction(_l2),
    "ReduceLogSum": _reduction(_log_sum),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceSumSquare": _reduction(_sum_square),
    "ArgMax": _arg(largest=True),
    "ArgMin": _arg(largest=False),
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _instance_norm,
    "BatchNormalization": _batch_norm,
    "CumSum": _cumsum,
    "LRN": _lrn,
}
