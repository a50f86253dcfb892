"""Recognise arithmetic with constants however an exporter spelled it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from compiler.ir.graph import Node
from compiler.passes.edit import GraphEdit

RELATIVE_TOLERANCE = 1e-5
"""assumed: constants of a formula are stored in float32 (6e-8) or in decimal with 6 digits."""


def near(value: float | None, wanted: float) -> bool:
    """Whether a constant is a formula's number, up to how exporters round it."""
    return value is not None and isclose(value, wanted, rel_tol=RELATIVE_TOLERANCE)


def operands(node: Node) -> Iterator[tuple[str, str]]:
    """The two inputs of a commutative operator in both orders."""
    left, right = node.inputs
    yield left, right
    yield right, left


def scaled(edit: GraphEdit, node: Node) -> tuple[str, float] | None:
    """(x, factor) where the node gives x times a constant scalar in x's shape."""
    found = None
    if node.op == "Mul":
        pairs = ((x, edit.scalar(other)) for x, other in operands(node))
        found = next(((x, factor) for x, factor in pairs if factor is not None), None)
    elif node.op == "Div" and (divisor := edit.scalar(node.inputs[1])):
        found = (node.inputs[0], 1.0 / divisor)
    if found is None or edit.shape(found[0]) != edit.shape(node.outputs[0]):
        return None
    return found


def shifted(edit: GraphEdit, node: Node) -> tuple[str, float] | None:
    """(x, addend) where the node, an Add, gives x plus a constant scalar in x's shape."""
    for x, other in operands(node):
        addend = edit.scalar(other)
        if addend is not None and edit.shape(x) == edit.shape(node.outputs[0]):
            return x, addend
    return None


def clipped(edit: GraphEdit, node: Node) -> tuple[str, float | None, float | None]:
    """(x, lowest, highest) of a Clip; its bounds are attributes before opset 11."""
    bounds = [edit.scalar(name) for name in node.inputs[1:]]
    if node.opset < 11:
        bounds = [node.float("min", float("-inf")), node.float("max", float("inf"))]
    low, high = (*bounds, None, None)[:2]
    return node.inputs[0], low, high
