"""Operators that slide a window, and those that sample an image."""

from __future__ import annotations

from math import ceil

from compiler.regions.asked import Asked
from compiler.regions.box import Box, clamp


def conv(asked: Asked) -> Box | None:
    """Conv, any number of spatial dims, groups included."""
    weights = asked.shape_of(1)
    channels = asked.box[1]
    groups = asked.node.int("group", 1)
    if asked.index == 2:
        return (channels,)
    if asked.index == 1:
        return (channels, *((0, extent) for extent in weights[1:]))
    inputs = _group_range(channels, asked.made[1] // groups, weights[1])
    return (asked.box[0], inputs, *_windows(asked, weights[2:]))


def conv_transpose(asked: Asked) -> Box | None:
    """ConvTranspose; where pads are not given as such, all of the image."""
    node, weights = asked.node, asked.shape_of(1)
    groups = node.int("group", 1)
    inputs = _group_range(asked.box[1], weights[1], weights[0] // groups)
    if asked.index == 2:
        return (asked.box[1],)
    if asked.index == 1:
        return (inputs, *((0, extent) for extent in weights[1:]))
    spatial = asked.shape[2:]
    given = node.str("auto_pad", "NOTSET") == "NOTSET" and not node.ints("output_shape")
    if not given:
        return (asked.box[0], inputs, *((0, extent) for extent in spatial))
    return (asked.box[0], inputs, *(_reached(asked, weights, at) for at in range(len(spatial))))


def _reached(asked: Asked, weights: tuple[int, ...], at: int) -> tuple[int, int]:
    """Input positions that a transposed window spreads to a range of the output."""
    node, spatial = asked.node, asked.shape[2:]
    count = len(spatial)
    stride = node.ints("strides", (1,) * count)[at]
    reach = (weights[2 + at] - 1) * node.ints("dilations", (1,) * count)[at]
    begin = node.ints("pads", (0,) * (2 * count))[at]
    low, high = asked.box[2 + at]
    return clamp(-((reach - low - begin) // stride), (high - 1 + begin) // stride + 1, spatial[at])


def _group_range(channels: tuple[int, int], made: int, read: int) -> tuple[int, int]:
    """Channels that the groups of a range of other channels take part with."""
    return channels[0] // made * read, -(-channels[1] // made) * read


def pool(asked: Asked) -> Box | None:
    """A pool over a window."""
    return (*asked.box[:2], *_windows(asked, asked.node.ints("kernel_shape")))


def global_pool(asked: Asked) -> Box | None:
    """A pool over the whole image."""
    return (*asked.box[:2], *((0, extent) for extent in asked.shape[2:]))


def _windows(asked: Asked, kernel: tuple[int, ...]) -> Box:
    node, count = asked.node, len(kernel)
    strides = node.ints("strides", (1,) * count)
    dilations = node.ints("dilations", (1,) * count)
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    before = [_pad_before(asked, at, spans[at], strides[at]) for at in range(count)]
    return tuple(
        clamp(low * stride - pad, (high - 1) * stride - pad + span, extent)
        for (low, high), stride, pad, span, extent in zip(
            asked.box[2:], strides, before, spans, asked.shape[2:], strict=True
        )
    )


def _pad_before(asked: Asked, at: int, span: int, stride: int) -> int:
    node, extent = asked.node, asked.shape[2 + at]
    mode = node.str("auto_pad", "NOTSET")
    if mode == "VALID":
        return 0
    if mode == "NOTSET":
        pads = node.ints("pads")
        return pads[at] if pads else 0
    total = max((asked.made[2 + at] - 1) * stride + span - extent, 0)
    return total // 2 if mode == "SAME_UPPER" else total - total // 2


def resize(asked: Asked) -> Box | None:
    """Resize and Upsample: a range around the scaled one, wide enough for any interpolation."""
    mode = asked.node.str("coordinate_transformation_mode", "half_pixel")
    if asked.index > 0 or mode == "tf_crop_and_resize" or asked.node.int("antialias", 0):
        return None
    return tuple(
        _sampled(ends, made, extent)
        for ends, made, extent in zip(asked.box, asked.made, asked.shape, strict=True)
    )


def _sampled(ends: tuple[int, int], made: int, extent: int) -> tuple[int, int]:
    if made == extent:
        return ends
    ratio = extent / max(made, 1)
    # Coordinate modes shift by up to two steps, a cubic reads two neighbours on each side.
    margin = 3 + 2 * ceil(ratio)
    return clamp(int(ends[0] * ratio) - margin, ceil(ends[1] * ratio) + margin, extent)


def grid_sample(asked: Asked) -> Box | None:
    """GridSample: any pixel of the same samples and channels, its own part of the grid."""
    if asked.index == 0:
        return (*asked.box[:2], *((0, extent) for extent in asked.shape[2:]))
    return (asked.box[0], *asked.box[2:], (0, asked.shape[-1]))


def depth_to_space(asked: Asked) -> Box | None:
    """DepthToSpace: a smaller image with all channels."""
    block = asked.node.int("blocksize", 1)
    spatial = ((low // block, -(-high // block)) for low, high in asked.box[2:])
    return (asked.box[0], (0, asked.shape[1]), *spatial)


def space_to_depth(asked: Asked) -> Box | None:
    """SpaceToDepth: a larger image with all channels."""
    block = asked.node.int("blocksize", 1)
    spatial = ((low * block, high * block) for low, high in asked.box[2:])
    return (asked.box[0], (0, asked.shape[1]), *spatial)
