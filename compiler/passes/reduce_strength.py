"""Replace costly vector arithmetic by multiplications that give the same values.

Division by a constant becomes multiplication (the vendor's profile of BERT-base has mulsplat where
the graph divides by sqrt(2), and no divide); small integer powers become products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.graph import Array, Constant, Graph, Node, value_of
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite


@dataclass(frozen=True, slots=True)
class ReduceStrength:
    """Div by a constant, and Pow with a small constant exponent, of floats."""

    name: ClassVar[str] = "reduce_strength"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite each node by itself."""
        return rewrite(graph, {"Div": _divide, "Pow": _power})


def _divide(edit: GraphEdit, node: Node) -> None:
    value, name = node.inputs
    divisor = edit.constant(name)
    if divisor is None or not edit.is_float(value):
        return
    factor = edit.add_constant(f"{name}.inverse", _inverse(divisor), key=name)
    edit.substitute(node, replace(node, op="Mul", inputs=(value, factor)))


def _inverse(constant: Constant) -> Constant:
    def load() -> Array:
        with np.errstate(divide="ignore"):
            return np.reciprocal(value_of(constant))

    return Constant(constant.type, load)


def _power(edit: GraphEdit, node: Node) -> None:
    base, out = node.inputs[0], node.outputs[0]
    exponent = edit.scalar(node.inputs[1])
    if not edit.is_float(base) or edit.shape(base) != edit.shape(out):
        return
    if exponent == 2.0:
        edit.substitute(node, replace(node, op="Mul", inputs=(base, base)))
    elif exponent in (3.0, 4.0):
        square = edit.add_value(f"{out}.square", edit.type(out))
        first = replace(
            node, name=f"{node.name}.square", op="Mul", inputs=(base, base), outputs=(square,)
        )
        other = base if exponent == 3.0 else square
        edit.substitute(node, first, replace(node, op="Mul", inputs=(square, other)))
    elif exponent in (0.5, -1.0):
        op = "Sqrt" if exponent == 0.5 else "Reciprocal"
        edit.substitute(node, replace(node, op=op, inputs=(base,)))
