"""Bring every operator that only renames the shape to one `View`, and make one of two in a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite
from compiler.passes.merge_transposes import permutation

_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "View", "Transpose")


@dataclass(frozen=True, slots=True)
class MergeViews:
    """Reshape, Flatten, Squeeze, Unsqueeze, and Transpose that moves axes of extent 1 only."""

    name: ClassVar[str] = "merge_views"

    def run(self, graph: Graph) -> PassResult:
        """Let each view read the bytes at the start of its chain."""
        return rewrite(graph, dict.fromkeys(_OPS, _merge))


def _merge(edit: GraphEdit, node: Node) -> None:
    if node.op == "Transpose" and not _keeps_order(edit, node):
        return
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


def _keeps_order(edit: GraphEdit, node: Node) -> bool:
    shape = edit.shape(node.inputs[0])
    moved = [axis for axis in permutation(edit, node) if shape[axis] != 1]
    return moved == sorted(moved)
