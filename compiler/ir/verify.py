"""What makes a graph well-formed."""

from __future__ import annotations

from collections import Counter

from compiler.errors import ModelError
from compiler.ir.graph import Graph, Node
from compiler.operators import WorkKind, find


def verify(graph: Graph) -> None:
    """Raise `ModelError` where `graph` breaks the contract of `compiler.ir.graph`.

    Names are defined once, and before they are used; each has a type; every operator has a
    device form.
    """
    _check_defined_once(graph)
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        _check_operator(node)
        for name in node.inputs:
            if name and name not in known:
                raise ModelError(
                    f"node '{node.name}' ({node.op}) reads '{name}' before it is made"
                )
        known.update(node.outputs)
    for name in graph.outputs:
        if name not in known:
            raise ModelError(f"graph output '{name}' is made by no node")
    for name in known - {""}:
        if name not in graph.types:
            raise ModelError(f"value '{name}' has no type")
    _check_constants(graph)


def _check_defined_once(graph: Graph) -> None:
    made = [name for node in graph.nodes for name in node.outputs if name]
    counts = Counter([*graph.inputs, *graph.constants, *made])
    for name, count in counts.items():
        if count > 1:
            raise ModelError(f"value '{name}' is defined {count} times; give each its own name")


def _check_operator(node: Node) -> None:
    row = find(node.domain, node.op)
    if row is None or row.kind is WorkKind.FOLD:
        raise ModelError(f"node '{node.name}': {node.op} has no device form and was not folded")


def _check_constants(graph: Graph) -> None:
    for name, constant in graph.constants.items():
        if constant.type != graph.types[name]:
            raise ModelError(
                f"constant '{name}' is {constant.type.shape}, the graph says "
                f"{graph.types[name].shape}"
            )
