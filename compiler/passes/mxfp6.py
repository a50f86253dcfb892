"""Keep constant matrix operands in DDR as MXFP6: blocks of 32 six-bit floats with one scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Constant, Graph, Node
from compiler.ir.mxfp6 import Mxfp6Weights
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite


@dataclass(frozen=True, slots=True)
class Mxfp6:
    """Runs last, and only where the user asks for it: it changes values."""

    name: ClassVar[str] = "mxfp6"

    def run(self, graph: Graph) -> PassResult:
        """Pack the constant float operands of MatMul and Gemm."""
        return rewrite(graph, dict.fromkeys(_PRODUCTS, _pack))


_PRODUCTS = ("MatMul", "MatMulBias", "Gemm")


def _pack(edit: GraphEdit, node: Node) -> None:
    inputs = [_packed(edit, node, 0), _packed(edit, node, 1), *node.inputs[2:]]
    if tuple(inputs) != node.inputs:
        edit.substitute(node, replace(node, inputs=tuple(inputs)))


def _packed(edit: GraphEdit, node: Node, index: int) -> str:
    """The operand, or its packed form where it is a constant matrix of floats."""
    name = node.inputs[index]
    constant = edit.constant(name)
    if constant is None or not constant.type.dtype.is_float or len(constant.type.shape) < 2:
        return name
    if isinstance(constant.load, Mxfp6Weights):
        return name
    turned = node.int("transB" if index else "transA", 0) if node.op == "Gemm" else 0
    inner_is_last = (index == 0) != bool(turned)
    axis = len(constant.type.shape) - (1 if inner_is_last else 2)
    made = Constant(constant.type, Mxfp6Weights(constant, axis))
    return edit.add_constant(f"{name}.mxfp6", made, key=f"{name} mxfp6 {axis}")
