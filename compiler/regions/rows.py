"""Operators that need whole rows: softmax, reductions, normalisations, sorting."""

from __future__ import annotations

from compiler.regions.asked import Asked, Rule
from compiler.regions.box import Box


def _with_whole(asked: Asked, axes: set[int]) -> Box:
    return tuple(
        (0, extent) if at in axes else asked.box[at] for at, extent in enumerate(asked.shape)
    )


def along_axis(default: int) -> Rule:
    """A rule for operators that need all of one axis, which is `default` if not given."""

    def rule(asked: Asked) -> Box | None:
        if asked.index > 0:
            return None
        return _with_whole(asked, {asked.axis(default, len(asked.shape))})

    return rule


def softmax(asked: Asked) -> Box | None:
    """One axis since opset 13; before, all dims from the axis on."""
    rank = len(asked.shape)
    if asked.node.opset >= 13:
        return _with_whole(asked, {asked.axis(-1, rank)})
    return _with_whole(asked, set(range(asked.axis(1, rank), rank)))


def reduce(asked: Asked) -> Box | None:
    """A reduction over axes given as an attribute or as a constant; over all where none are."""
    if asked.index > 0:
        return None
    rank = len(asked.shape)
    given = asked.node.ints("axes") or asked.values(1)
    if given is None and asked.has(1):
        return None
    if not given and asked.node.int("noop_with_empty_axes", 0):
        return asked.box
    axes = {axis % max(rank, 1) for axis in given} if given else set(range(rank))
    return _reduced(asked, axes)


def arg_reduce(asked: Asked) -> Box | None:
    """ArgMax and ArgMin: one axis."""
    return _reduced(asked, {asked.axis(0, len(asked.shape))})


def _reduced(asked: Asked, axes: set[int]) -> Box | None:
    rank = len(asked.shape)
    if asked.node.int("keepdims", 1):
        return _with_whole(asked, axes)
    kept = iter(asked.box)
    return tuple((0, asked.shape[at]) if at in axes else next(kept) for at in range(rank))


def layer_norm(asked: Asked) -> Box | None:
    """LayerNormalization and RMSNormalization: all dims from the axis on."""
    if asked.index > 0:
        return None
    rank = len(asked.shape)
    return _with_whole(asked, set(range(asked.axis(-1, rank), rank)))


def instance_norm(asked: Asked) -> Box | None:
    """The whole image of a channel."""
    if asked.index > 0:
        return (asked.box[1],)
    return _with_whole(asked, set(range(2, len(asked.shape))))


def group_norm(asked: Asked) -> Box | None:
    """The whole image of the channels of a group."""
    if asked.index > 0:
        return None
    each = asked.shape[1] // asked.node.int("num_groups", 1)
    low, high = asked.box[1]
    channels = (low // each * each, -(-high // each) * each)
    return (asked.box[0], channels, *((0, extent) for extent in asked.shape[2:]))


def batch_norm(asked: Asked) -> Box | None:
    """In inference, each element by itself, with four values of its channel."""
    if asked.node.int("training_mode", 0) or asked.output:
        return None
    if asked.index == 0:
        return asked.box
    return (asked.box[1],) if len(asked.box) > 1 else None


def lrn(asked: Asked) -> Box | None:
    """All channels."""
    return _with_whole(asked, {1})


def mean_variance(asked: Asked) -> Box | None:
    """The axes that are normalised over."""
    return _with_whole(asked, set(asked.node.ints("axes", (0, 2, 3))))


def cumulative(asked: Asked) -> Box | None:
    """CumSum: all of an axis that is a constant."""
    axis = asked.values(1)
    if asked.index > 0 or not axis:
        return None
    return _with_whole(asked, {axis[0] % max(len(asked.shape), 1)})
