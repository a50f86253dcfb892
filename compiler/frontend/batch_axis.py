"""Along which axis a result holds the samples of a batch, operator by operator.

A value is *batched* along an axis when that axis is sample-major: its extent is a multiple of the
batch size, each sample owns one contiguous run of it, and no sample's part depends on another
sample. The rules here are for changing a fixed batch size; an operator or a use without a rule is
refused, because its results might mix samples while all shapes still agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from compiler.frontend.calls import Call
from compiler.ir.graph import Array, TensorType
from compiler.operators import WorkKind, find

Axis = int | None


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A call with what its rule needs: operand types, their batch axes, and known values.

    `types`, `axes` and `values` go with `call.inputs`, `results` with its outputs; all are for
    the batch size `batch` of the file. At least one operand has a batch axis.
    """

    call: Call
    types: tuple[TensorType | None, ...]
    axes: tuple[Axis, ...]
    values: tuple[Array | None, ...]
    results: tuple[TensorType, ...]
    batch: int

    @property
    def axis(self) -> int | None:
        """The batch axis of the first operand."""
        return self.axes[0]

    @property
    def only_first(self) -> bool:
        """Whether the first operand is the only one that is batched."""
        return self.axes[0] is not None and not any(axis is not None for axis in self.axes[1:])

    def rank(self, operand: int = 0) -> int:
        """The rank of an operand."""
        given = self.types[operand]
        return 0 if given is None else len(given.shape)

    def extent(self, operand: int, axis: int) -> int:
        """An extent of an operand, 1 for axes that broadcasting would add in front."""
        given = self.types[operand]
        return given.shape[axis] if given is not None and axis >= 0 else 1

    def number(self, name: str, default: int) -> int:
        """An attribute that is one integer."""
        value = self.call.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def numbers(self, name: str, operand: int) -> tuple[int, ...] | None:
        """A list of integers from an attribute (old opsets) or an operand (new ones)."""
        value = self.call.attributes.get(name)
        if isinstance(value, tuple):
            return tuple(int(item) for item in value)
        held = self.values[operand] if operand < len(self.values) else None
        return None if held is None else tuple(int(item) for item in held.reshape(-1))


Rule = Callable[[Use], Axis]


def batch_axis(use: Use) -> Axis:
    """The batch axis of every result of the call, `None` when no rule allows this use."""
    row = find(use.call.domain, use.call.op)
    if row is not None and row.kind is WorkKind.ELEMENTWISE:
        return _elementwise(use)
    rule = _RULES.get(use.call.op)
    return None if rule is None else rule(use)


def _elementwise(use: Use) -> Axis:
    """Operands that broadcast; one with an extent per sample shows in the result's shape."""
    rank = len(use.results[0].shape)
    aligned = {axis + rank - use.rank(at) for at, axis in enumerate(use.axes) if axis is not None}
    return aligned.pop() if len(aligned) == 1 else None


def _reshaped(use: Use) -> Axis:
    """The axis of the result before which there are as many elements as before the old one."""
    given = use.types[0]
    if given is None or use.axis is None:
        return None
    outer = prod(given.shape[: use.axis])
    shape = use.results[0].shape
    for axis, extent in enumerate(shape):
        if prod(shape[:axis]) == outer and extent % use.batch == 0:
            return axis
    return None


def _same(use: Use) -> Axis:
    return use.axis


def _unsqueezed(use: Use) -> Axis:
    axes = use.numbers("axes", 1)
    if axes is None or use.axis is None:
        return None
    rank = len(use.results[0].shape)
    added = {axis % rank for axis in axes}
    return [axis for axis in range(rank) if axis not in added][use.axis]


def _squeezed(use: Use) -> Axis:
    axes = use.numbers("axes", 1)
    if axes is None or use.axis is None:
        return None
    removed = {axis % use.rank() for axis in axes}
    return None if use.axis in removed else use.axis - sum(axis < use.axis for axis in removed)


def _leading(use: Use) -> Axis:
    """Operators whose first axis is a batch by definition."""
    return 0 if use.axis == 0 and use.only_first else None


def _one_result(use: Use) -> Axis:
    """Their further results, statistics and flat indices, are over the whole batch."""
    trained = use.number("training_mode", 0) == 1 or len(use.results) > 1
    return None if trained else _leading(use)


def _all_leading(use: Use) -> Axis:
    return 0 if set(use.axes) == {0} else None


def _softmax(use: Use) -> Axis:
    # Since opset 13 over one axis, before over all from the axis on (ONNX changelog, Softmax).
    if use.call.opset < 13:
        return _inner(use, 1)
    return _other_axis(use, -1)


def _inner(use: Use, default: int) -> Axis:
    """Over all axes from one on."""
    first = use.number("axis", default) % max(1, use.rank())
    return use.axis if use.axis is not None and use.only_first and use.axis < first else None


def _other_axis(use: Use, default: int) -> Axis:
    """Along one axis."""
    axis = use.number("axis", default) % max(1, use.rank())
    return use.axis if use.only_first and use.axis != axis else None


def _reduced(use: Use) -> Axis:
    axes = use.numbers("axes", 1)
    if axes is None or use.axis is None or not use.only_first:
        return None
    return _without(use, {axis % use.rank() for axis in axes})


def _arg(use: Use) -> Axis:
    return _without(use, {use.number("axis", 0) % use.rank()}) if use.axis is not None else None


def _without(use: Use, removed: set[int]) -> Axis:
    if use.axis is None or use.axis in removed:
        return None
    kept = use.number("keepdims", 1) == 1
    return use.axis if kept else use.axis - sum(axis < use.axis for axis in removed)


def _cum_sum(use: Use) -> Axis:
    axes = use.numbers("axis", 1)
    along = None if axes is None else axes[0] % use.rank()
    return use.axis if use.only_first and along is not None and use.axis != along else None


def _matmul(use: Use) -> Axis:
    left, right = use.axes
    if min(use.rank(0), use.rank(1)) < 2 or left == use.rank(0) - 1 or right == use.rank(1) - 2:
        return None
    return _elementwise(use)


def _gemm(use: Use) -> Axis:
    transposed = use.number("transA", 0) == 1
    broadcast = len(use.types) < 3 or use.rank(2) < 2 or use.extent(2, 0) == 1
    return 0 if use.only_first and use.axis == int(transposed) and broadcast else None


def _einsum(use: Use) -> Axis:
    equation = str(use.call.attributes.get("equation", "")).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    if "." in equation or not arrow or len(terms) != len(use.axes):
        return None
    letters = {t[axis] for t, axis in zip(terms, use.axes, strict=True) if axis is not None}
    if len(letters) != 1:
        return None
    letter = letters.pop()
    for term, axis in zip(terms, use.axes, strict=True):
        if term.count(letter) != (0 if axis is None else 1):
            return None
    return result.index(letter) if result.count(letter) == 1 else None


def _concat(use: Use) -> Axis:
    axis = use.number("axis", 1) % use.rank()
    return use.axis if len(set(use.axes)) == 1 and use.axis != axis else None


def _slice(use: Use) -> Axis:
    """Cutting along other axes; a cut through the batch shows in the result's shape."""
    steps, axes = use.numbers("steps", 4), use.numbers("axes", 3)
    if steps is None or not use.only_first:
        return use.axis if use.only_first else None
    along = range(len(steps)) if axes is None else [axis % use.rank() for axis in axes]
    strided = {axis for axis, step in zip(along, steps, strict=True) if step != 1}
    return None if use.axis in strided else use.axis


def _pad(use: Use) -> Axis:
    pads = use.numbers("pads", 1)
    if pads is None or use.axis is None or not use.only_first or len(pads) != 2 * use.rank():
        return None
    return None if pads[use.axis] or pads[use.axis + use.rank()] else use.axis


def _expand(use: Use) -> Axis:
    if use.axis is None or not use.only_first:
        return None
    axis = use.axis + len(use.results[0].shape) - use.rank()
    return axis if use.results[0].shape[axis] == use.extent(0, use.axis) else None


def _tile(use: Use) -> Axis:
    repeats = use.numbers("repeats", 1)
    once = repeats is not None and use.axis is not None and repeats[use.axis] == 1
    return use.axis if use.only_first and once else None


def _trilu(use: Use) -> Axis:
    return use.axis if use.axis is not None and use.axis < use.rank() - 2 else None


def _transpose(use: Use) -> Axis:
    perm = use.numbers("perm", len(use.axes)) or tuple(reversed(range(use.rank())))
    return None if use.axis is None else perm.index(use.axis)


def _gather(use: Use) -> Axis:
    data, indices = use.axes
    axis = use.number("axis", 0) % use.rank()
    if data is None:
        return None if indices is None else axis + indices
    if indices is not None or data == axis:
        return None
    return data if data < axis else data - 1 + use.rank(1)


def _along_other_axis(use: Use) -> Axis:
    axis = use.number("axis", 0) % use.rank()
    return use.axis if len(set(use.axes)) == 1 and use.axis != axis else None


def _one_hot(use: Use) -> Axis:
    if use.axis is None or not use.only_first:
        return None
    axis = use.number("axis", -1) % (use.rank() + 1)
    return use.axis + (use.axis >= axis)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        (
            "Conv",
            "ConvTranspose",
            "InstanceNormalization",
            "GroupNormalization",
            "LRN",
            "AveragePool",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "LpPool",
            "GlobalLpPool",
            "Resize",
            "Upsample",
            "SpaceToDepth",
            "DepthToSpace",
        ),
        _leading,
    ),
    **dict.fromkeys(
        (
            "ReduceMean",
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceSumSquare",
        ),
        _reduced,
    ),
    **dict.fromkeys(("BatchNormalization", "MaxPool"), _one_result),
    **dict.fromkeys(("Reshape", "Flatten"), _reshaped),
    **dict.fromkeys(("Identity", "Dropout"), _same),
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), lambda use: _inner(use, -1)),
    **dict.fromkeys(("LpNormalization", "TopK"), lambda use: _other_axis(use, -1)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("GatherElements", "ScatterElements"), _along_other_axis),
    "CumSum": _cum_sum,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Concat": _concat,
    "Slice": _slice,
    "Split": lambda use: _other_axis(use, 0),
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "Trilu": _trilu,
    "Transpose": _transpose,
    "Gather": _gather,
    "GridSample": _all_leading,
    "OneHot": _one_hot,
}
