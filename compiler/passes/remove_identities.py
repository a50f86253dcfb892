"""Drop operators that give their input back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

_NEUTRAL_LEFT = {"Add": 0.0, "Mul": 1.0}
_NEUTRAL_RIGHT = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0, "Pow": 1.0}


@dataclass(frozen=True, slots=True)
class RemoveIdentities:
    """No-ops by operator, by shape, or by a neutral constant; casts between float widths."""

    name: ClassVar[str] = "remove_identities"

    def run(self, graph: Graph) -> PassResult:
        """Read the input of a no-op where its result is read."""
        return rewrite(graph, {op: _remove for op in _CHECKS})


def _remove(edit: GraphEdit, node: Node) -> None:
    source = _CHECKS[node.op](edit, node)
    if source:
        edit.forward(node, source)


def _always(edit: GraphEdit, node: Node) -> str:
    return node.inputs[0]


def _same_shape(edit: GraphEdit, node: Node) -> str:
    source = node.inputs[0]
    return source if edit.shape(source) == edit.shape(node.outputs[0]) else ""


def _only_input(edit: GraphEdit, node: Node) -> str:
    return node.inputs[0] if len(node.inputs) == 1 else ""


def _only_output(edit: GraphEdit, node: Node) -> str:
    return node.inputs[0] if len(node.outputs) == 1 else ""


def _dropout(edit: GraphEdit, node: Node) -> str:
    trains = len(node.inputs) > 2 and node.inputs[2] and edit.scalar(node.inputs[2]) != 0.0
    masks = any(name and edit.uses(name) for name in node.outputs[1:])
    return "" if trains or masks else node.inputs[0]


def _cast(edit: GraphEdit, node: Node) -> str:
    before, after = edit.type(node.inputs[0]).dtype, edit.type(node.outputs[0]).dtype
    same = before is after or (before.is_float and after.is_float)
    return node.inputs[0] if same else ""


def _transpose(edit: GraphEdit, node: Node) -> str:
    axes = range(len(edit.shape(node.inputs[0])))
    kept = node.ints("perm", tuple(reversed(axes))) == tuple(axes)
    return node.inputs[0] if kept else ""


def _pad(edit: GraphEdit, node: Node) -> str:
    pads = pads_of(edit, node)
    return node.inputs[0] if pads is not None and not any(pads) else ""


def pads_of(edit: GraphEdit, node: Node) -> tuple[int, ...] | None:
    """A Pad's amounts, an attribute before opset 11; `None` when not known."""
    return edit.ints(node.inputs[1]) if len(node.inputs) > 1 else node.ints("pads")


def _slice(edit: GraphEdit, node: Node) -> str:
    """All of the input, in its order: a step of -1 keeps the shape too, but reverses."""
    steps = edit.ints(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] else ()
    backward = steps is None or any(step < 0 for step in steps)
    return "" if backward else _same_shape(edit, node)


def _pool(edit: GraphEdit, node: Node) -> str:
    """A window of one element; the other output of MaxPool (indices) must be unused."""
    window = (*node.ints("kernel_shape"), *node.ints("strides"))
    moves = any(extent != 1 for extent in window) or any(node.ints("pads"))
    indices = any(name and edit.uses(name) for name in node.outputs[1:])
    return "" if moves or indices else _same_shape(edit, node)


def _arithmetic(edit: GraphEdit, node: Node) -> str:
    left, right = node.inputs
    neutral = ((left, right, _NEUTRAL_RIGHT), (right, left, _NEUTRAL_LEFT))
    for kept, other, values in neutral:
        if node.op in values and edit.scalar(other) == values[node.op]:
            return kept if edit.shape(kept) == edit.shape(node.outputs[0]) else ""
    return ""


_CHECKS: dict[str, Callable[[GraphEdit, Node], str]] = {
    "Identity": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast,
    "Reshape": _same_shape,
    "Flatten": _same_shape,
    "Squeeze": _same_shape,
    "Unsqueeze": _same_shape,
    "View": _same_shape,
    "Expand": _same_shape,
    "Tile": _same_shape,
    "Concat": _only_input,
    "Sum": _only_input,
    "Mean": _only_input,
    "Max": _only_input,
    "Min": _only_input,
    "Split": _only_output,
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "AveragePool": _pool,
    "MaxPool": _pool,
    "Add": _arithmetic,
    "Sub": _arithmetic,
    "Mul": _arithmetic,
    "Div": _arithmetic,
    "Pow": _arithmetic,
}
