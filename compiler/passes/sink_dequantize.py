"""Let operators that only move or pick elements work on quantised values.

A Dequantize in front of one moves behind it: there it meets the Quantize of the next layer, which
it undoes, or a product that takes quantised operands. Where scales vary along an axis, it passes
only a Transpose, which keeps axes whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.ir.graph import Constant, Node, TensorType
from compiler.passes.edit import GraphEdit, Rule
from compiler.passes.merge_views import permutation
from compiler.passes.quantized import Scheme, dequantising, reshaped, scheme_of, transposed

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "View")
# MaxPool and GlobalMaxPool pick: the largest integer stands for the largest value.
_MOVES = (
    "Slice",
    "Expand",
    "Tile",
    "Gather",
    "GatherElements",
    "GatherND",
    "DepthToSpace",
    "SpaceToDepth",
    "ReverseSequence",
    "MaxPool",
    "GlobalMaxPool",
)


def _undo(edit: GraphEdit, node: Node) -> None:
    """Quantize behind Dequantize by the same scheme."""
    before = dequantising(edit, node.inputs[0])
    if before is None or scheme_of(before) != scheme_of(node):
        return
    if edit.type(before.inputs[0]).dtype is edit.type(node.outputs[0]).dtype:
        edit.forward(node, before.inputs[0])


def _view(edit: GraphEdit, node: Node) -> None:
    before = dequantising(edit, node.inputs[0])
    if before is None or not scheme_of(before).is_uniform:
        return
    constant = edit.constant(before.inputs[0])
    if constant is None:
        _sink(edit, node, before, scheme_of(before))
    else:
        moved = reshaped(edit, before.inputs[0], constant, edit.shape(node.outputs[0]))
        _on_constant(edit, node, before, moved, scheme_of(before))


def _transpose(edit: GraphEdit, node: Node) -> None:
    before = dequantising(edit, node.inputs[0])
    if before is None:
        return
    perm, scheme = permutation(edit, node), scheme_of(before)
    if not scheme.is_uniform:
        scheme = replace(scheme, axis=perm.index(scheme.axis))
    constant = edit.constant(before.inputs[0])
    if constant is None:
        _sink(edit, node, before, scheme)
    else:
        moved = transposed(edit, before.inputs[0], constant, perm)
        _on_constant(edit, node, before, moved, scheme)


def _move(edit: GraphEdit, node: Node) -> None:
    before = dequantising(edit, node.inputs[0])
    if before is None or not scheme_of(before).is_uniform or any(node.outputs[1:]):
        return
    if edit.constant(before.inputs[0]) is None or node.op == "Gather":
        _sink(edit, node, before, scheme_of(before))


def _resize(edit: GraphEdit, node: Node) -> None:
    if node.str("mode", "nearest") == "nearest":
        _move(edit, node)


def _pad(edit: GraphEdit, node: Node) -> None:
    """Zeros around are zero points around; other numbers are left alone."""
    before = dequantising(edit, node.inputs[0])
    if before is None or not scheme_of(before).is_uniform or edit.constant(before.inputs[0]):
        return
    if node.str("mode", "constant") != "constant":
        _sink(edit, node, before, scheme_of(before))
        return
    given = edit.scalar(node.inputs[2]) if any(node.inputs[2:3]) else node.float("value", 0.0)
    if given != 0.0 or len(node.inputs) < 2:
        return
    zero = _zero_of(edit, before)
    rest = node.inputs[3:]
    _sink(edit, replace(node, inputs=(*node.inputs[:2], zero, *rest)), before, scheme_of(before))


def _zero_of(edit: GraphEdit, before: Node) -> str:
    """A constant that holds the zero point in the type of the quantised values."""
    dtype, zero = edit.type(before.inputs[0]).dtype, scheme_of(before).zeros[0]
    made = Constant(TensorType(dtype, ()), lambda: np.array(zero, dtype=dtype.value))
    return edit.add_constant("zero_point", made, key=f"zero point {zero} {dtype.value}")


def _concat(edit: GraphEdit, node: Node) -> None:
    before = [dequantising(edit, name) for name in node.inputs]
    found = [each for each in before if each is not None]
    if len(found) < len(node.inputs):
        return
    kinds = {(scheme_of(each), edit.type(each.inputs[0]).dtype) for each in found}
    if len(kinds) == 1 and scheme_of(found[0]).is_uniform:
        names = tuple(each.inputs[0] for each in found)
        _replace(edit, node, found[0], names, scheme_of(found[0]))


def _split(edit: GraphEdit, node: Node) -> None:
    before = dequantising(edit, node.inputs[0])
    if before is None or not scheme_of(before).is_uniform:
        return
    if edit.constant(before.inputs[0]) is not None or any(map(edit.is_output, node.outputs)):
        return
    moved = [_quantised(edit, name, before) if name else "" for name in node.outputs]
    inputs = (before.inputs[0], *node.inputs[1:])
    made = [replace(node, name=f"{node.name}.quantised", inputs=inputs, outputs=tuple(moved))]
    values = [edit.add_value(f"{n}.dequantised", edit.type(n)) if n else "" for n in node.outputs]
    for at, (source, value) in enumerate(zip(moved, values, strict=True)):
        if value:
            name = f"{node.name}.dequantise.{at}"
            made.append(replace(before, name=name, inputs=(source,), outputs=(value,)))
    edit.insert(node, *made)
    edit.forward(node, *values)


def _sink(edit: GraphEdit, node: Node, before: Node, scheme: Scheme) -> None:
    """Let `node` work on the integers, and dequantise what it makes."""
    _replace(edit, node, before, (before.inputs[0], *node.inputs[1:]), scheme)


def _replace(
    edit: GraphEdit, node: Node, before: Node, inputs: tuple[str, ...], scheme: Scheme
) -> None:
    moved = _quantised(edit, node.outputs[0], before)
    own = replace(node, inputs=inputs, outputs=(moved,))
    edit.substitute(node, own, _dequantise(node, before, moved, scheme))


def _on_constant(edit: GraphEdit, node: Node, before: Node, moved: str, scheme: Scheme) -> None:
    edit.substitute(node, _dequantise(node, before, moved, scheme))


def _quantised(edit: GraphEdit, name: str, before: Node) -> str:
    """A value in the shape of `name` and the type of what `before` dequantises."""
    dtype = edit.type(before.inputs[0]).dtype
    return edit.add_value(f"{name}.quantised", TensorType(dtype, edit.shape(name)))


def _dequantise(node: Node, before: Node, source: str, scheme: Scheme) -> Node:
    return replace(
        before,
        name=f"{node.name}.dequantise",
        inputs=(source,),
        outputs=node.outputs[:1],
        attributes=scheme.attributes(),
    )


RULES: dict[str, Rule] = {
    "Quantize": _undo,
    **dict.fromkeys(_VIEWS, _view),
    **dict.fromkeys(_MOVES, _move),
    "Transpose": _transpose,
    "Resize": _resize,
    "Pad": _pad,
    "Concat": _concat,
    "Split": _split,
}
