"""Drop nodes that no output needs, and constants and types that nothing names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.base import PassResult
from compiler.passes.edit import trimmed


@dataclass(frozen=True, slots=True)
class RemoveDead:
    """Inputs of the graph stay even when unused: the host sends them."""

    name: ClassVar[str] = "remove_dead"

    def run(self, graph: Graph) -> PassResult:
        """Keep what the outputs need."""
        result = trimmed(graph, _needed(graph))
        changed = any(
            len(after) != len(before)
            for after, before in (
                (result.nodes, graph.nodes),
                (result.constants, graph.constants),
                (result.types, graph.types),
            )
        )
        return PassResult(result if changed else graph, changed)


def _needed(graph: Graph) -> tuple[Node, ...]:
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(name for name in node.outputs if name):
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))
