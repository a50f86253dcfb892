"""Read what an Expand repeats, where the reader repeats it by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

_BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Where"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"),
)


@dataclass(frozen=True, slots=True)
class SkipExpands:
    """The Expand stays where another reader, or the shape of the result, needs it."""

    name: ClassVar[str] = "skip_expands"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite the operands of each operator that broadcasts."""
        return rewrite(graph, dict.fromkeys(_BROADCASTING, _skip))


def _skip(edit: GraphEdit, node: Node) -> None:
    for at, name in enumerate(node.inputs):
        expand = edit.producer(name, "Expand")
        if expand is None:
            continue
        inputs = (*node.inputs[:at], expand.inputs[0], *node.inputs[at + 1 :])
        if _broadcast([edit.shape(value) for value in inputs]) == edit.shape(node.outputs[0]):
            edit.substitute(node, replace(node, inputs=inputs))
            return


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of operands that are known to broadcast."""
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    extents = [next((n for n in column if n != 1), 1) for column in columns]
    return tuple(reversed(extents))
