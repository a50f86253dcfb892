"""Which values stay in float32: statistics of rows, and what is computed from them alone.

A mean or a sum of squares is one value for a row, costs no room, and often is the small difference
of two large numbers or the sum of thousands: in fp16 it would overflow or lose what matters. HVX
computes in float32 as well (qf32), so such values are rounded only where they meet a full tensor.
"""

from __future__ import annotations

from compiler.ir.graph import Graph, Node
from compiler.operators import WorkKind, find

_KINDS = frozenset({WorkKind.ELEMENTWISE, WorkKind.VIEW})


def wide_values(graph: Graph) -> frozenset[str]:
    """Names of the values that are not rounded to fp16; outputs of the graph are none of them."""
    found: set[str] = set()
    for node in graph.nodes:
        if _is_statistic(graph, node, found):
            found.update(node.outputs)
    return frozenset(found - set(graph.outputs))


def _is_statistic(graph: Graph, node: Node, wide: set[str]) -> bool:
    if node.op.startswith("Reduce") and not node.domain:
        return graph.types[node.outputs[0]].dtype.is_float
    operator = find(node.domain, node.op)
    if operator is None or operator.kind not in _KINDS:
        return False
    given = [name for name in node.inputs if name and not graph.is_constant(name)]
    return bool(given) and all(name in wide for name in given) and _adds_none(graph, node, given)


def _adds_none(graph: Graph, node: Node, given: list[str]) -> bool:
    """Whether the result has no more elements than a statistic that it comes from."""
    most = max(graph.types[name].elements for name in given)
    return graph.types[node.outputs[0]].elements <= most
