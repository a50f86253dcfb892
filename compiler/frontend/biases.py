"""Biases of products in the one form that quantisers expect: an element for each output."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper


def flatten_biases(path: Path) -> None:
    """Rewrite a file so that every constant bias of a Gemm has one dim, with all its elements.

    Gemm allows any shape that can be broadcast, and a factor `beta`, which goes into the constant.
    A bias that varies from row to row is added by a node of its own.
    """
    model = onnx.load(path, load_external_data=False)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    uneven = [
        (at, node) for at, node in enumerate(model.graph.node) if _is_uneven(node, constants)
    ]
    for at, node in reversed(uneven):
        _flatten(model.graph, at, node, constants, path.parent)
    if uneven:
        onnx.save(model, path)


def _is_uneven(node: NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    if node.op_type != "Gemm" or node.domain or len(node.input) < 3:
        return False
    weight, bias = (constants.get(name) for name in node.input[1:3])
    if weight is None or bias is None:
        return False
    return list(bias.dims) != [_outputs(node, weight)] or _setting(node, "beta", 1.0) != 1


def _outputs(node: NodeProto, weight: TensorProto) -> int:
    return int(weight.dims[0 if _setting(node, "transB", 0) else 1])


def _setting(node: NodeProto, name: str, default: float) -> float:
    found = [helper.get_attribute_value(item) for item in node.attribute if item.name == name]
    return float(found[0]) if found else default


def _flatten(
    graph: GraphProto,
    at: int,
    node: NodeProto,
    constants: Mapping[str, TensorProto],
    folder: Path,
) -> None:
    held = numpy_helper.to_array(constants[node.input[2]], base_dir=str(folder))
    bias = (held * _setting(node, "beta", 1.0)).astype(held.dtype)
    kept = [item for item in node.attribute if item.name != "beta"]
    del node.attribute[:]
    node.attribute.extend(kept)
    name = f"{node.output[0]}/bias"
    if prod(bias.shape[:-1]) == 1:
        outputs = _outputs(node, constants[node.input[1]])
        bias = np.array(np.broadcast_to(bias.reshape(-1), outputs))
        node.input[2] = name
    else:
        _add_behind(graph, at, node, name)
    graph.initializer.append(numpy_helper.from_array(bias, name))


def _add_behind(graph: GraphProto, at: int, node: NodeProto, bias: str) -> None:
    result, product = node.output[0], f"{node.output[0]}/product"
    del node.input[2:]
    node.output[0] = product
    added = helper.make_node("Add", [product, bias], [result], name=f"{node.name}/bias")
    graph.node.insert(at + 1, added)
