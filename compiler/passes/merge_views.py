"""Make one operator of every chain that only renames the shape, or only moves axes.

Reshape, Flatten, Squeeze, Unsqueeze, and a Transpose that moves axes of extent 1 only, become the
internal `View`; two views in a row become one, and so do two transposes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, Rule, rewrite


@dataclass(frozen=True, slots=True)
class MergeViews:
    """The first of two stays where something else reads it."""

    name: ClassVar[str] = "merge_views"

    def run(self, graph: Graph) -> PassResult:
        """Let each view and each transpose read what stands at the start of its chain."""
        return rewrite(graph, {"Transpose": _merge_transposes}, _VIEWS)


def permutation(edit: GraphEdit, node: Node) -> tuple[int, ...]:
    """The axes of a Transpose's input in the order of its output; reversed by default."""
    rank = len(edit.shape(node.inputs[0]))
    return node.ints("perm", tuple(reversed(range(rank))))


def _merge_transposes(edit: GraphEdit, node: Node) -> None:
    first = edit.producer(node.inputs[0], "Transpose")
    if first is not None:
        inner, outer = permutation(edit, first), permutation(edit, node)
        merged = tuple(inner[axis] for axis in outer)
        edit.substitute(node, replace(node, inputs=first.inputs, attributes={"perm": merged}))


def _transpose(edit: GraphEdit, node: Node) -> None:
    shape = edit.shape(node.inputs[0])
    moved = [axis for axis in permutation(edit, node) if shape[axis] != 1]
    if moved == sorted(moved):
        _view(edit, node)


def _view(edit: GraphEdit, node: Node) -> None:
    source = node.inputs[0]
    while (before := edit.producer(source, "View")) is not None:
        source = before.inputs[0]
    if edit.shape(source) == edit.shape(node.outputs[0]) and edit.forward(node, source):
        return
    view = replace(
        node, op="View", domain=INTERNAL_DOMAIN, opset=1, inputs=(source,), attributes={}
    )
    if view != node:
        edit.substitute(node, view)


_VIEWS: dict[str, Rule] = {
    "Reshape": _view,
    "Flatten": _view,
    "Squeeze": _view,
    "Unsqueeze": _view,
    "View": _view,
    "Transpose": _transpose,
}
