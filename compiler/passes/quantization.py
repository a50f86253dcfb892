"""Run in int8 what the model quantises: products on the tensor unit, moves on bytes.

What no product takes stays between Dequantize and Quantize and is computed in fp16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Graph, Node, TensorType
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes import quantized_products, sink_dequantize
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, Rule, rewrite
from compiler.passes.quantized import Dequantised, constant_scheme, scheme_of

_QUANTISED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "Quantize",
        "Dequantize",
        "ConvInteger",
        "MatMulInteger",
        *quantized_products.PRODUCTS,
    }
)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Scales that are known only at run time are left to the operators that ONNX has for them."""

    name: ClassVar[str] = "quantization"

    def run(self, graph: Graph) -> PassResult:
        """Find the integer products of a graph."""
        if not any(node.op in _QUANTISED for node in graph.nodes):
            return PassResult(graph, changed=False)
        return rewrite(graph, _EXPLICIT, sink_dequantize.RULES, quantized_products.RULES, _LEFT)


def _internal(edit: GraphEdit, node: Node) -> None:
    scheme = constant_scheme(edit, node)
    if scheme is not None:
        edit.substitute(
            node,
            replace(
                node,
                op=node.op.removesuffix("Linear"),
                domain=INTERNAL_DOMAIN,
                opset=1,
                inputs=node.inputs[:1],
                attributes=scheme.attributes(),
            ),
        )


def _fold(edit: GraphEdit, node: Node) -> None:
    """What is left of quantised constants are floats that fp16 arithmetic reads."""
    constant = edit.constant(node.inputs[0])
    if constant is not None:
        values = Dequantised(constant, scheme_of(node))
        type_ = TensorType(DType.FLOAT32, constant.type.shape)
        edit.forward(node, edit.add_constant(node.outputs[0], Constant(type_, values)))


_EXPLICIT: dict[str, Rule] = {"QuantizeLinear": _internal, "DequantizeLinear": _internal}
_LEFT: dict[str, Rule] = {"Dequantize": _fold}
