"""Make one Transpose of two in a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite


@dataclass(frozen=True, slots=True)
class MergeTransposes:
    """The first of the two stays where something else reads it."""

    name: ClassVar[str] = "merge_transposes"

    def run(self, graph: Graph) -> PassResult:
        """Let each Transpose read what came before the Transposes in front of it."""
        return rewrite(graph, {"Transpose": _merge})


def permutation(edit: GraphEdit, node: Node) -> tuple[int, ...]:
    """The axes of a Transpose's input in the order of its output; reversed by default."""
    rank = len(edit.shape(node.inputs[0]))
    return node.ints("perm", tuple(reversed(range(rank))))


def _merge(edit: GraphEdit, node: Node) -> None:
    first = edit.producer(node.inputs[0], "Transpose")
    if first is None:
        return
    inner, outer = permutation(edit, first), permutation(edit, node)
    merged = tuple(inner[axis] for axis in outer)
    if merged == tuple(range(len(merged))) and edit.forward(node, first.inputs[0]):
        return
    edit.substitute(node, replace(node, inputs=first.inputs, attributes={"perm": merged}))
