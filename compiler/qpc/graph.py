"""The optimised graph as a segment, with which a container can be executed after it was read.

Large constants are references into constants.bin. Tiny ones, and attributes, lie here with their
exact values.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, AttributeValue, Constant, Graph, Node, TensorType, value_of
from compiler.ir.mxfp6 import Mxfp6Weights
from compiler.qpc import payload
from compiler.qpc.constants import (
    ConstantImage,
    Place,
    StoredTensor,
    check_place,
    is_inline,
    numpy_dtype,
)
from compiler.qpc.container import Container

GRAPH_SEGMENT = "aic_configurator_graph"
_FORMAT = 1


def encode(graph: Graph, image: ConstantImage) -> bytes:
    """The content of our graph segment; `image` has been streamed already."""
    head = {
        "format": _FORMAT,
        "name": graph.name,
        "batch_size": graph.batch_size,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "nodes": [_node_row(node) for node in graph.nodes],
        "types": {name: payload.plain(type_) for name, type_ in graph.types.items()},
        "constants": {
            name: _constant_row(name, constant, image)
            for name, constant in graph.constants.items()
        },
    }
    return payload.seal(head)


def decode(content: bytes, container: Container) -> Graph:
    """The graph of a segment of `container`, where its constants are read from when loaded."""
    head, _ = payload.unseal(content, "graph")
    try:
        if head["format"] != _FORMAT:
            raise QpcError(f"the graph has format {head['format']}, this version reads {_FORMAT}")
        types = {
            name: payload.restored(TensorType, row) for name, row in _object(head["types"]).items()
        }
        return Graph(
            name=payload.restored(str, head["name"]),
            inputs=payload.restored(_TEXTS, head["inputs"]),
            outputs=payload.restored(_TEXTS, head["outputs"]),
            nodes=tuple(_node(row) for row in head["nodes"]),
            types=types,
            constants=_constants(_object(head["constants"]), types, container),
            batch_size=payload.restored(int, head["batch_size"]),
        )
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise QpcError(f"the graph segment is damaged: {error}") from error


_TEXTS = tuple[str, ...]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} found where an object belongs")
    return value


def _node_row(node: Node) -> list[object]:
    attributes = {name: _attribute_row(value) for name, value in node.attributes.items()}
    return [node.name, node.op, node.domain, node.opset, node.inputs, node.outputs, attributes]


def _node(row: Any) -> Node:
    name, op, domain, opset, inputs, outputs, attributes = row
    return Node(
        name=payload.restored(str, name),
        op=payload.restored(str, op),
        domain=payload.restored(str, domain),
        opset=payload.restored(int, opset),
        inputs=payload.restored(_TEXTS, inputs),
        outputs=payload.restored(_TEXTS, outputs),
        attributes={key: _attribute(value) for key, value in _object(attributes).items()},
    )


def _attribute_row(value: AttributeValue) -> object:
    return {"array": _array_row(value)} if isinstance(value, np.ndarray) else value


def _attribute(value: Any) -> AttributeValue:
    if isinstance(value, dict):
        return _array(value["array"])
    if isinstance(value, list):
        if not all(isinstance(item, int | float | str) for item in value):
            raise ValueError("an attribute's list holds neither numbers nor texts")
        return tuple(value)
    if not isinstance(value, int | float | str):
        raise ValueError(f"an attribute is a {type(value).__name__}")
    return value


def _array_row(array: Array) -> list[object]:
    if array.dtype.kind in "OUST":
        return [DType.STRING.value, array.shape, [str(item) for item in array.reshape(-1)]]
    dtype = DType(array.dtype.name)
    data = np.ascontiguousarray(array, dtype=numpy_dtype(dtype)).tobytes()
    return [dtype.value, array.shape, base64.b64encode(data).decode()]


def _array(row: Any) -> Array:
    name, shape, data = row
    shape = payload.restored(tuple[int, ...], shape)
    dtype = numpy_dtype(DType(name))
    if isinstance(data, list):
        values: Array = np.array(payload.restored(_TEXTS, data), dtype=object)
    else:
        values = np.frombuffer(base64.b64decode(data, validate=True), dtype=dtype)
    return values.reshape(shape)


def _constant_row(name: str, constant: Constant, image: ConstantImage) -> object:
    if is_inline(constant):
        return {"array": _array_row(value_of(constant))}
    return payload.plain(image.place(name))


def _constants(
    rows: Mapping[str, Any], types: Mapping[str, TensorType], container: Container
) -> dict[str, Constant]:
    sizes = {name: entry.size for name, entry in container.entries.items()}
    shared: dict[tuple[Place, TensorType], Constant] = {}
    found = {}
    for name, row in rows.items():
        type_ = types[name]
        if isinstance(row, dict):
            found[name] = _inline(_array(row["array"]), type_)
            continue
        place = payload.restored(Place, row)
        check_place(place, type_, sizes)
        loaded = Constant(type_, StoredTensor(container, place, type_))
        if place.packed_axis >= 0:
            loaded = Constant(type_, Mxfp6Weights(loaded, place.packed_axis))
        found[name] = shared.setdefault((place, type_), loaded)
    return found


def _inline(values: Array, type_: TensorType) -> Constant:
    if values.shape != type_.shape:
        raise ValueError(f"a constant of shape {type_.shape} has values of shape {values.shape}")
    values.setflags(write=False)
    return Constant(type_, lambda: values)
