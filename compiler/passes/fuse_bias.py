"""Make a constant that is added per output channel the bias of the matrix operator before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.arithmetic import operands
from compiler.passes.base import PassResult
from compiler.passes.channels import (
    ChannelVector,
    absorbed,
    channel_vector,
    matrix_before,
    negated,
)
from compiler.passes.edit import GraphEdit, rewrite


@dataclass(frozen=True, slots=True)
class FuseBias:
    """A MatMul by constant weights becomes Gemm if both operands have rank 2, else MatMulBias."""

    name: ClassVar[str] = "fuse_bias"

    def run(self, graph: Graph) -> PassResult:
        """Fuse each Add or Sub of a constant that follows a matrix operator directly."""
        return rewrite(graph, {"Add": _add, "Sub": _sub})


def _add(edit: GraphEdit, node: Node) -> None:
    for value, name in operands(node):
        matrix = _biased(edit, value)
        shift = channel_vector(edit, name, matrix) if matrix is not None else None
        if matrix is not None and shift is not None:
            _fuse(edit, node, matrix, shift)
            return


def _sub(edit: GraphEdit, node: Node) -> None:
    value, name = node.inputs
    matrix = _biased(edit, value)
    shift = channel_vector(edit, name, matrix) if matrix is not None else None
    if matrix is not None and shift is not None:
        _fuse(edit, node, matrix, negated(shift))


def _biased(edit: GraphEdit, value: str) -> Node | None:
    """The matrix operator behind `value`, if it may take a bias."""
    matrix = matrix_before(edit, value)
    if matrix is None or (matrix.op == "MatMul" and edit.constant(matrix.inputs[1]) is None):
        return None
    return matrix


def _fuse(edit: GraphEdit, node: Node, matrix: Node, shift: ChannelVector) -> None:
    fused = absorbed(edit, matrix, shift=shift)
    if fused is not None:
        edit.substitute(node, replace(fused, outputs=node.outputs))
