"""ONNX's own reference evaluation of one node, for operators without a kernel of ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto
from onnx.helper import make_attribute, np_dtype_to_tensor_dtype
from onnx.numpy_helper import from_array

from compiler.errors import UnsupportedError
from compiler.ir.graph import Array, AttributeValue, Node

_IR_VERSION = 10
"""Any version since 4 will do: the evaluator asks for no more."""

# Operators that went by another name since opset 11, with the same meaning.
_NEWER = {"Scatter": "ScatterElements"}
_NEWER_OPSET = 11


def run_node(node: Node, operands: Sequence[Array | None]) -> tuple[Array, ...]:
    """All outputs of a node on whole operands; `None` stands for an absent one.

    Raises `UnsupportedError` where the reference has no evaluation for the operator.
    """
    # Takes longer to import than most models take to compile, and few need it.
    from onnx.reference import ReferenceEvaluator

    feeds = {f"i{at}": item for at, item in enumerate(operands) if item is not None}
    try:
        results = ReferenceEvaluator(_model(node, operands)).run(None, feeds)
    except (NotImplementedError, RuntimeError) as error:
        raise UnsupportedError(
            f"node {node.name}: {node.domain or 'ai.onnx'}::{node.op} (opset {node.opset}) cannot "
            f"be run for its values: {str(error).strip().splitlines()[0]}"
        ) from error
    made = iter(np.asarray(result) for result in results)
    return tuple(next(made) if name else np.empty(0) for name in node.outputs)


def _model(node: Node, operands: Sequence[Array | None]) -> ModelProto:
    model = ModelProto(ir_version=_IR_VERSION)
    version = max(node.opset, _NEWER_OPSET) if node.op in _NEWER else node.opset
    model.opset_import.append(OperatorSetIdProto(domain=node.domain, version=version))
    model.graph.name = "node"
    for at, item in enumerate(operands):
        if item is not None:
            value = ValueInfoProto(name=f"i{at}")
            value.type.tensor_type.elem_type = np_dtype_to_tensor_dtype(item.dtype)
            model.graph.input.append(value)
    call = NodeProto(op_type=_NEWER.get(node.op, node.op), domain=node.domain)
    call.input.extend("" if item is None else f"i{at}" for at, item in enumerate(operands))
    call.output.extend(f"o{at}" if name else "" for at, name in enumerate(node.outputs))
    call.attribute.extend(_attribute(name, value) for name, value in node.attributes.items())
    model.graph.output.extend(ValueInfoProto(name=name) for name in call.output if name)
    model.graph.node.append(call)
    return model


def _attribute(name: str, value: AttributeValue) -> AttributeProto:
    if isinstance(value, np.ndarray):
        return make_attribute(name, from_array(value))
    if value == ():
        return AttributeProto(name=name, type=AttributeProto.INTS)
    return make_attribute(name, value)
