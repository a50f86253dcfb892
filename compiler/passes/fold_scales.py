"""Fold multiplication by a constant into the weights that made the value.

A factor per output channel passes back through transposes. One factor for all elements also passes
through views, and through a product into either of its operands:
in attention, the scale of the scores ends up in the query's weights. (The vendor's profile of
BERT-base has no multiplication of the scores.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.arithmetic import operands, scaled
from compiler.passes.base import PassResult
from compiler.passes.channels import (
    absorbed,
    channel_axis,
    channel_count,
    is_matrix,
    matrix_before,
    uniform,
    vector_along,
)
from compiler.passes.edit import GraphEdit, rewrite
from compiler.passes.merge_views import permutation

_LARGEST_FACTOR = 1024.0
"""assumed: weights of sane scale stay inside fp16 (6e-5 to 65504) when scaled by this or its
inverse; a factor beyond stays where the model put it."""


@dataclass(frozen=True, slots=True)
class FoldScales:
    """Weights that several nodes read are copied once per factor."""

    name: ClassVar[str] = "fold_scales"

    def run(self, graph: Graph) -> PassResult:
        """Fold each Mul by a constant, and Div by a constant scalar."""
        return rewrite(graph, {"Mul": _fold, "Div": _fold})


def _fold(edit: GraphEdit, node: Node) -> None:
    if not edit.is_float(node.outputs[0]):
        return
    by_scalar = scaled(edit, node)
    if by_scalar is not None:
        _fold_scalar(edit, node, *by_scalar)
    elif node.op == "Mul":
        _fold_channels(edit, node)


def _fold_scalar(edit: GraphEdit, node: Node, value: str, factor: float) -> None:
    if not 1.0 / _LARGEST_FACTOR <= abs(factor) <= _LARGEST_FACTOR:
        return
    found = _weights_behind(edit, value, factor)
    if found is not None:
        edit.substitute(*found)
        edit.forward(node, value)


def _weights_behind(edit: GraphEdit, value: str, factor: float) -> tuple[Node, Node] | None:
    """The matrix node that can take the factor, and itself with the factor in its weights."""
    node = edit.producer(value) if edit.single_use(value) else None
    while node is not None and node.op in ("View", "Transpose"):
        value = node.inputs[0]
        node = edit.producer(value) if edit.single_use(value) else None
    if node is None or not is_matrix(edit, node):
        return None
    scale = uniform(factor, channel_count(edit, node))
    fused = absorbed(edit, node, scale=scale)
    if fused is not None:
        return node, fused
    if node.op != "MatMul":
        return None
    operand = (_weights_behind(edit, name, factor) for name in node.inputs)
    return next((found for found in operand if found is not None), None)


def _fold_channels(edit: GraphEdit, node: Node) -> None:
    for value, name in operands(node):
        matrix, axis = _channels_behind(edit, value)
        scale = vector_along(edit, name, value, axis) if matrix is not None else None
        fused = absorbed(edit, matrix, scale=scale) if matrix is not None and scale else None
        if matrix is not None and fused is not None:
            edit.substitute(matrix, fused)
            edit.forward(node, value)
            return


def _channels_behind(edit: GraphEdit, value: str) -> tuple[Node | None, int]:
    """The matrix operator behind `value`, and which axis of `value` its channels are."""
    moved: list[tuple[int, ...]] = []
    while edit.single_use(value) and (node := edit.producer(value, "Transpose")) is not None:
        moved.append(permutation(edit, node))
        value = node.inputs[0]
    matrix = matrix_before(edit, value)
    axis = channel_axis(edit, matrix) if matrix is not None else 0
    for perm in reversed(moved):
        axis = perm.index(axis)
    return matrix, axis
