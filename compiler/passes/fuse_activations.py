"""Recognise activation functions that an exporter took apart.

Silu:        x * sigmoid(x)
Mish:        x * tanh(softplus(x))
HardSigmoid: clip(x + 3, 0, 6) / 6
HardSwish:   x * clip(x + 3, 0, 6) / 6
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import AttributeValue, Graph, Node
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.arithmetic import clipped, near, operands, scaled, shifted
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

_SIXTH = 1.0 / 6.0
_HARD_SIGMOID: dict[str, AttributeValue] = {"alpha": _SIXTH, "beta": 0.5}


@dataclass(frozen=True, slots=True)
class FuseActivations:
    """GELU is left apart: the vendor's profile of BERT-base runs erf, mul and add one by one."""

    name: ClassVar[str] = "fuse_activations"

    def run(self, graph: Graph) -> PassResult:
        """Fuse at the last node of each formula."""
        return rewrite(graph, {"Mul": _mul, "Div": _sixth})


def _mul(edit: GraphEdit, node: Node) -> None:
    if not _gated(edit, node):
        _sixth(edit, node)


def _gated(edit: GraphEdit, node: Node) -> bool:
    """x * gate(x)."""
    for x, gate in operands(node):
        op = _gate(edit, x, gate)
        if op is not None:
            edit.substitute(node, replace(op, name=node.name, outputs=node.outputs))
            return True
    return False


def _gate(edit: GraphEdit, x: str, gate: str) -> Node | None:
    """The operator for x * gate, where gate is a known function of x."""
    made = edit.producer(gate, "Sigmoid", "HardSigmoid", "Tanh") if edit.single_use(gate) else None
    if made is None:
        return None
    if made.op == "Tanh":
        inner = made.inputs[0]
        softplus = edit.producer(inner, "Softplus") if edit.single_use(inner) else None
        matches = softplus is not None and softplus.inputs[0] == x
        return _unary(made, "Mish", x, since=18) if matches else None
    if made.inputs[0] != x:
        return None
    if made.op == "Sigmoid":
        return replace(_unary(made, "Silu", x, since=1), domain=INTERNAL_DOMAIN, opset=1)
    alpha, beta = made.float("alpha", 0.2), made.float("beta", 0.5)
    standard = near(alpha, _SIXTH) and near(beta, 0.5)
    return _unary(made, "HardSwish", x, since=14) if standard else None


def _sixth(edit: GraphEdit, node: Node) -> None:
    """A sixth of clip(x + 3, 0, 6), or of x times that."""
    product = scaled(edit, node)
    if product is None or not near(product[1], _SIXTH) or not edit.single_use(product[0]):
        return
    x = _relu6_of_shifted(edit, product[0])
    if x:
        fused = replace(_unary(node, "HardSigmoid", x, since=6), attributes=_HARD_SIGMOID)
        edit.substitute(node, fused)
        return
    mul = edit.producer(product[0], "Mul")
    for value, gate in operands(mul) if mul is not None else ():
        if edit.single_use(gate) and _relu6_of_shifted(edit, gate) == value:
            edit.substitute(node, _unary(node, "HardSwish", value, since=14))
            return


def _relu6_of_shifted(edit: GraphEdit, name: str) -> str:
    """The x of clip(x + 3, 0, 6)."""
    clip = edit.producer(name, "Clip")
    if clip is None:
        return ""
    inner, low, high = clipped(edit, clip)
    add = edit.producer(inner, "Add") if edit.single_use(inner) else None
    plus = shifted(edit, add) if add is not None else None
    if plus is None or low != 0.0 or high != 6.0 or not near(plus[1], 3.0):
        return ""
    return plus[0]


def _unary(node: Node, op: str, x: str, *, since: int) -> Node:
    opset = max(node.opset, since)
    return replace(node, op=op, domain="", opset=opset, inputs=(x,), attributes={})
