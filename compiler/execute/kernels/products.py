"""Products, accumulated in float32 as the tensor unit does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from compiler.execute.work import Work
from compiler.ir.graph import Array


def _matmul(work: Work) -> Array:
    values: Array = np.matmul(work.operand(0), work.operand(1))
    return values + work.operand(2) if work.has(2) else values


def _gemm(work: Work) -> Array:
    first, second = work.operand(0), work.operand(1)
    first = first.T if work.node.int("transA", 0) else first
    second = second.T if work.node.int("transB", 0) else second
    alpha, beta = work.node.float("alpha", 1.0), work.node.float("beta", 1.0)
    values = first @ second
    values = values if alpha == 1.0 else (values * alpha).astype(values.dtype)
    if not work.has(2):
        return values
    added = work.operand(2)
    return values + (added if beta == 1.0 else (added * beta).astype(values.dtype))


def _einsum(work: Work) -> Array:
    equation = work.node.str("equation", "").replace(" ", "")
    return np.asarray(np.einsum(equation, *work.operands(), optimize=True))


def _conv(work: Work) -> Array:
    values, weights = _padded(work), work.operand(1)
    groups, made = work.node.int("group", 1), work.made.shape[1]
    first, end = work.box[1]
    if groups == 1:
        result = _correlate(work, values, weights)
    elif groups == made == work.type(0).shape[1]:
        result = _depthwise(work, values, weights)
    else:
        result = _grouped(work, values, weights, made // groups)
    if not work.has(2):
        return result
    bias = work.read(2, ((first, end),))
    return result + bias.reshape(1, -1, *(1 for _ in work.box[2:]))


def _grouped(work: Work, values: Array, weights: Array, each: int) -> Array:
    """One group after the other; the box may begin and end within a group."""
    first, end = work.box[1]
    inputs = weights.shape[1]
    parts = []
    for group in range(first // each, -(-end // each)):
        low, high = max(first, group * each), min(end, (group + 1) * each)
        at = (group - first // each) * inputs
        own = values[:, at : at + inputs]
        parts.append(_correlate(work, own, weights[low - first : high - first]))
    return np.concatenate(parts, axis=1)


def _windows(work: Work, values: Array, kernel: tuple[int, ...]) -> Array:
    """[N, C, output dims, kernel dims] without a copy."""
    count = len(kernel)
    strides = work.node.ints("strides", (1,) * count)
    dilations = work.node.ints("dilations", (1,) * count)
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    views = sliding_window_view(values, spans, axis=tuple(range(2, 2 + count)))
    moved = tuple(slice(None, None, stride) for stride in strides)
    taps = tuple(slice(None, None, dilation) for dilation in dilations)
    return np.asarray(views[(slice(None), slice(None), *moved, *taps)])


def _correlate(work: Work, values: Array, weights: Array) -> Array:
    kernel = weights.shape[2:]
    windows = _windows(work, values, kernel)
    count = len(kernel)
    out = windows.shape[2 : 2 + count]
    columns = np.moveaxis(windows, 1, 1 + count)
    columns = columns.reshape(values.shape[0], int(np.prod(out)), -1)
    product = np.matmul(weights.reshape(weights.shape[0], -1), columns.transpose(0, 2, 1))
    return np.asarray(product.reshape(values.shape[0], weights.shape[0], *out))


def _depthwise(work: Work, values: Array, weights: Array) -> Array:
    windows = _windows(work, values, weights.shape[2:])
    count = weights.ndim - 2
    result = np.zeros(windows.shape[: 2 + count], dtype=values.dtype)
    for tap in np.ndindex(*weights.shape[2:]):
        scale = weights[(slice(None), 0, *tap)].reshape(1, -1, *(1 for _ in range(count)))
        result += windows[(..., *tap)] * scale
    return result


def _padded(work: Work) -> Array:
    """The part of the input that the box sees, with the zeros around it that padding adds."""
    part = work.part(0)
    values = work.read(0, part)
    wanted = window_range(work, work.type(1).shape[2:])
    pads = [(0, 0), (0, 0)]
    for (low, high), (first, end) in zip(part[2:], wanted, strict=True):
        pads.append((min(low, end) - first, end - max(high, first)))
    clipped = [(max(before, 0), max(after, 0)) for before, after in pads]
    return np.pad(values, clipped)


def window_range(work: Work, kernel: tuple[int, ...]) -> list[tuple[int, int]]:
    """Input positions, those in the padding included, that the box's windows cover."""
    count = len(kernel)
    strides = work.node.ints("strides", (1,) * count)
    dilations = work.node.ints("dilations", (1,) * count)
    found = []
    for at, (low, high) in enumerate(work.box[2:]):
        span = (kernel[at] - 1) * dilations[at] + 1
        before = pads_of(work, kernel)[at][0]
        found.append((low * strides[at] - before, (high - 1) * strides[at] - before + span))
    return found


def pads_of(work: Work, kernel: tuple[int, ...]) -> list[tuple[int, int]]:
    """(before, after) of each spatial dim, by attribute or by auto_pad."""
    node, count = work.node, len(kernel)
    mode = node.str("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        pads = node.ints("pads") if mode == "NOTSET" else ()
        pads = pads or (0,) * (2 * count)
        return [(pads[at], pads[count + at]) for at in range(count)]
    strides = node.ints("strides", (1,) * count)
    dilations = node.ints("dilations", (1,) * count)
    found = []
    for at in range(count):
        span = (kernel[at] - 1) * dilations[at] + 1
        extent, made = work.type(0).shape[2 + at], work.made.shape[2 + at]
        total = max((made - 1) * strides[at] + span - extent, 0)
        before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        found.append((before, total - before))
    return found


def _conv_transpose(work: Work) -> Array:
    """Each input spreads its window over the output; what falls into the box is kept."""
    node, kernel = work.node, work.type(1).shape[2:]
    count = len(kernel)
    strides = node.ints("strides", (1,) * count)
    begins = node.ints("pads", (0,) * (2 * count))[:count]
    part = work.part(0)
    values, weights = work.read(0, part), work.operand(1)
    full, spans = _spread(work, values, weights)
    result = np.zeros((full.shape[0], work.shape[1], *work.shape[2:]), dtype=values.dtype)
    each = work.type(1).shape[1]
    channel = work.box[1][0] - work.box[1][0] // each * each
    source = [slice(None), slice(channel, channel + work.shape[1])]
    target = [slice(None), slice(None)]
    for at, (low, high) in enumerate(work.box[2:]):
        start = part[2 + at][0] * strides[at] - begins[at]
        first, end = max(low, start), min(high, start + spans[at])
        source.append(slice(first - start, max(first, end) - start))
        target.append(slice(first - low, max(first, end) - low))
    result[tuple(target)] = full[tuple(source)]
    if work.has(2):
        result += work.read(2, (work.box[1],)).reshape(1, -1, *(1 for _ in range(count)))
    return result


def _spread(work: Work, values: Array, weights: Array) -> tuple[Array, list[int]]:
    """All that a part of the input gives, and its extents."""
    kernel, groups = weights.shape[2:], values.shape[1] // _inputs_of_group(work)
    count = len(kernel)
    strides = work.node.ints("strides", (1,) * count)
    dilations = work.node.ints("dilations", (1,) * count)
    spans = [
        max(0, (values.shape[2 + at] - 1) * strides[at] + (kernel[at] - 1) * dilations[at] + 1)
        for at in range(count)
    ]
    each = weights.shape[1]
    full = np.zeros((values.shape[0], groups, each, *spans), dtype=values.dtype)
    lead = values.reshape(values.shape[0], groups, -1, int(np.prod(values.shape[2:])))
    taps = weights.reshape(groups, -1, each, *kernel)
    for tap in np.ndindex(*kernel):
        own = taps[(..., *tap)].transpose(0, 2, 1)
        product = np.matmul(own[None], lead).reshape(*full.shape[:3], *values.shape[2:])
        where = tuple(
            slice(tap[at] * dilations[at], tap[at] * dilations[at] + spans[at], strides[at])
            for at in range(count)
        )
        cut = tuple(slice(0, extent) for extent in values.shape[2:])
        target = full[(slice(None), slice(None), slice(None), *where)]
        target[(slice(None), slice(None), slice(None), *cut)] += product
    return full.reshape(values.shape[0], groups * each, *spans), spans


def _inputs_of_group(work: Work) -> int:
    return int(work.type(0).shape[1] // work.node.int("group", 1))


def _explicit(work: Work) -> bool:
    """Whether the pads of a transposed convolution are given as such."""
    node = work.node
    return node.str("auto_pad", "NOTSET") == "NOTSET" and not node.ints("output_shape")


def conv_transpose(work: Work) -> Array | None:
    """`None` where pads follow from the output's shape: the reference knows those rules."""
    return _conv_transpose(work) if _explicit(work) else None


KERNELS: dict[str, Callable[[Work], Array | None]] = {
    "MatMul": _matmul,
    "MatMulBias": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvTranspose": conv_transpose,
}
