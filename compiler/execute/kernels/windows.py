"""Pools and image sampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from compiler.execute.kernels.products import pads_of, window_range
from compiler.execute.work import Work
from compiler.ir.graph import Array


def _taken(work: Work, fill: float) -> Array:
    """[N, C, output dims, kernel dims]: what each window of the box sees."""
    kernel = work.node.ints("kernel_shape")
    part = work.part(0)
    values = work.read(0, part)
    pads = [(0, 0), (0, 0)]
    for (low, high), (first, end) in zip(part[2:], window_range(work, kernel), strict=True):
        pads.append((max(min(low, end) - first, 0), max(end - max(high, first), 0)))
    padded = np.pad(values, pads, constant_values=fill)
    return _views(work, padded, kernel)


def _views(work: Work, padded: Array, kernel: tuple[int, ...]) -> Array:
    count = len(kernel)
    strides = work.node.ints("strides", (1,) * count)
    dilations = work.node.ints("dilations", (1,) * count)
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    views = sliding_window_view(padded, spans, axis=tuple(range(2, 2 + count)))
    moved = tuple(slice(None, None, stride) for stride in strides)
    taps = tuple(slice(None, None, dilation) for dilation in dilations)
    return np.asarray(views[(slice(None), slice(None), *moved, *taps)])


def _kernel_axes(work: Work) -> tuple[int, ...]:
    return tuple(range(-len(work.node.ints("kernel_shape")), 0))


def _max_pool(work: Work) -> Array | None:
    if work.output:
        return None
    fill = -np.inf if work.dtype.kind == "f" else int(np.iinfo(work.dtype.name).min)
    return np.asarray(_taken(work, fill).max(axis=_kernel_axes(work)))


def _average_pool(work: Work) -> Array:
    total = _taken(work, 0.0).sum(axis=_kernel_axes(work))
    count = np.ones((1, 1, *total.shape[2:]), dtype=total.dtype)
    for at, counted in enumerate(_counted(work)):
        shape = [1] * total.ndim
        shape[2 + at] = len(counted)
        count = count * counted.reshape(shape).astype(total.dtype)
    return np.asarray(total / count)


def _counted(work: Work) -> list[Array]:
    """How many positions of each window count, by spatial dim."""
    kernel = work.node.ints("kernel_shape")
    count = len(kernel)
    strides = work.node.ints("strides", (1,) * count)
    dilations = work.node.ints("dilations", (1,) * count)
    padded = bool(work.node.int("count_include_pad", 0))
    found = []
    for at, (before, after) in enumerate(pads_of(work, kernel)):
        starts = np.arange(*work.box[2 + at]) * strides[at] - before
        taps = starts[:, None] + np.arange(kernel[at]) * dilations[at]
        extent = work.type(0).shape[2 + at]
        low, high = (-before, extent + after) if padded else (0, extent)
        found.append(((taps >= low) & (taps < high)).sum(axis=1))
    return found


def _global_average(work: Work) -> Array:
    value = work.operand(0)
    return np.asarray(value.mean(axis=tuple(range(2, value.ndim)), keepdims=True))


def _global_max(work: Work) -> Array:
    value = work.operand(0)
    return np.asarray(value.max(axis=tuple(range(2, value.ndim)), keepdims=True))


def _resize(work: Work) -> Array | None:
    """Separable: one axis after the other; `None` for what only the reference knows."""
    node = work.node
    mode = node.str("mode", "nearest")
    corners = node.str("coordinate_transformation_mode", "half_pixel")
    if corners == "tf_crop_and_resize" or node.int("antialias", 0):
        return None
    part = work.part(0)
    value = work.read(0, part)
    for axis, scale in enumerate(_scales(work)):
        extent, made = work.type(0).shape[axis], work.made.shape[axis]
        if extent == made and scale == 1.0:
            continue
        at = _coordinates(work, np.arange(*work.box[axis]), scale, extent, made)
        value = _INTERPOLATIONS[mode](work, value, axis, at, extent, part[axis][0])
    return value


def _scales(work: Work) -> list[float]:
    """Output extent over input extent, as given where it is given."""
    shapes = list(zip(work.type(0).shape, work.made.shape, strict=True))
    exact = [made / max(extent, 1) for extent, made in shapes]
    index = 1 if work.node.op == "Upsample" or work.node.opset < 11 else 2
    given = work.node.attributes.get("scales")
    values = given if given is not None else work.all_of(index) if work.has(index) else ()
    scales = [float(value) for value in np.asarray(values).reshape(-1)]
    if not scales:
        return exact
    axes = work.node.ints("axes") or tuple(range(len(shapes)))
    for axis, scale in zip(axes, scales, strict=True):
        exact[axis % len(shapes)] = scale
    return exact


def _coordinates(work: Work, at: Array, scale: float, extent: int, made: int) -> Array:
    """Where in the input each output position lies."""
    old = work.node.op == "Upsample" or work.node.opset < 11
    mode = "asymmetric" if old else "half_pixel"
    mode = work.node.str("coordinate_transformation_mode", mode)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        # The extent that is aligned is the scaled one, which need not be whole (ONNX, Resize).
        last = scale * extent - 1
        return at * (extent - 1) / last if made > 1 and last > 0 else at * 0.0
    if mode == "pytorch_half_pixel" and made <= 1:
        return at * 0.0
    if mode == "half_pixel_symmetric":
        adjustment = made / (scale * extent)
        return extent / 2 * (1 - adjustment) + (at + 0.5) / scale - 0.5
    return (at + 0.5) / scale - 0.5


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
}


def _nearest(work: Work, value: Array, axis: int, at: Array, extent: int, start: int) -> Array:
    old = work.node.op == "Upsample" or work.node.opset < 11
    mode = work.node.str("nearest_mode", "floor" if old else "round_prefer_floor")
    index = np.clip(_ROUNDINGS[mode](at), 0, extent - 1).astype(np.int64) - start
    return np.asarray(np.take(value, index, axis=axis))


def _linear(work: Work, value: Array, axis: int, at: Array, extent: int, start: int) -> Array:
    low = np.floor(at)
    return _weighted(value, axis, [(low, 1 - (at - low)), (low + 1, at - low)], extent, start)


def _cubic(work: Work, value: Array, axis: int, at: Array, extent: int, start: int) -> Array:
    a = work.node.float("cubic_coeff_a", -0.75)
    low = np.floor(at)
    taps = []
    for offset in (-1, 0, 1, 2):
        distance = np.abs(at - (low + offset))
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        taps.append((low + offset, np.where(distance <= 1, near, np.where(distance < 2, far, 0))))
    if work.node.int("exclude_outside", 0):
        taps = [(tap, np.where((tap >= 0) & (tap < extent), w, 0)) for tap, w in taps]
        total = sum(w for _, w in taps)
        taps = [(tap, w / total) for tap, w in taps]
    return _weighted(value, axis, taps, extent, start)


def _weighted(
    value: Array, axis: int, taps: list[tuple[Array, Array]], extent: int, start: int
) -> Array:
    shape = [1] * value.ndim
    shape[axis] = -1
    result = None
    for position, weight in taps:
        index = np.clip(position, 0, extent - 1).astype(np.int64) - start
        term = np.take(value, index, axis=axis) * weight.reshape(shape).astype(np.float32)
        result = term if result is None else result + term
    return np.asarray(result)


_INTERPOLATIONS = {"nearest": _nearest, "linear": _linear, "bilinear": _linear, "cubic": _cubic}

KERNELS: dict[str, Callable[[Work], Array | None]] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "Resize": _resize,
    "Upsample": _resize,
}
