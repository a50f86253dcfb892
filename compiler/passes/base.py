"""What a graph pass is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from compiler.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass's graph, and whether it differs from the one that went in."""

    graph: Graph
    changed: bool


class Pass(Protocol):
    """One rewrite of a whole graph.

    A protocol, because passes must not know each other. Every pass keeps these promises: a graph
    that verifies goes in and comes out; inputs and outputs keep names, types and values; nothing
    large is computed (new constants are loaded on demand); `changed` is true just when the graph
    differs; a second run changes nothing.

    The device computes every float in one width. So float element types are one type to a pass:
    a value may be read where another width was declared.
    """

    @property
    def name(self) -> str:
        """The pass's name, as its module has it."""

    def run(self, graph: Graph) -> PassResult:
        """Rewrite `graph`."""
