"""Operators that ONNX defines by other operators, expanded where we have no form of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, cast

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call, Decoder, default_domain
from compiler.frontend.control_flow import instance
from compiler.frontend.made import Expansion
from compiler.frontend.shapes import node_of, type_proto
from compiler.frontend.text import text
from compiler.ir.graph import TensorType
from compiler.operators import find


class _Schema(Protocol):
    """What ONNX's schema offers for functions; its type stubs leave it out."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, version: int, /) -> bytes:
        """The body, serialized."""
        ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes:
        """The body for a node and the types of its inputs, serialized."""
        ...


def has_body(call: Call) -> bool:
    """Whether the call is one to expand: unknown to our table, defined by a body in ONNX."""
    if find(call.domain, call.op) is not None or call.bodies:
        return False
    return is_function(call.op, call.opset, call.domain)


def expanded(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """The calls of the operator's body; `types` holds those of the operands."""
    try:
        function = _body(call, types)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{call.label} cannot be expanded: {reason}") from error
    named = {default_domain(text(item.domain)): item.version for item in function.opset_import}
    # A body of another domain may use the default one without naming its opset.
    opsets = {"": defs.onnx_opset_version(), **named}
    nodes = _resolved(function.node, _attributes(call, function))
    body = Decoder(Path(), opsets).function(function, nodes)
    operands = (*call.inputs, *("" for _ in body.inputs))
    given = dict(zip(body.inputs, operands, strict=False))
    results = (*call.outputs, *("" for _ in body.outputs))[: len(body.outputs)]
    return instance(call, body, f"{call.name}/{call.op}/", given, results)


@lru_cache
def is_function(op: str, opset: int, domain: str) -> bool:
    """Whether ONNX defines the operator by others."""
    if not defs.has(op, max_inclusive_version=opset, domain=domain):
        return False
    schema = _schema(op, opset, domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _schema(op: str, opset: int, domain: str) -> _Schema:
    return cast(_Schema, defs.get_schema(op, opset, domain))


def _body(call: Call, types: Mapping[str, TensorType]) -> FunctionProto:
    """The newest body that the operator's opset may use; ONNX writes some for several opsets."""
    schema = _schema(call.op, call.opset, call.domain)
    if schema.has_function:
        version = _newest(schema.function_opset_versions, call)
        return FunctionProto.FromString(schema.get_function_with_opset_version(version))
    version = _newest(schema.context_dependent_function_opset_versions, call)
    node = node_of(call.signature).SerializeToString()
    kinds = [_kind(types[name] if name else None) for name in call.inputs]
    made = schema.get_context_dependent_function_with_opset_version(version, node, kinds)
    return FunctionProto.FromString(made)


def _newest(versions: Sequence[int], call: Call) -> int:
    """A body of a domain of its own may name any opset; else not a newer one than the call's."""
    usable = [version for version in versions if call.domain or version <= call.opset]
    if not usable:
        raise UnsupportedError(
            f"{call.label}: ONNX defines it by other operators only since opset {min(versions)}; "
            "convert the model with onnx.version_converter"
        )
    return max(usable)


def _kind(type_: TensorType | None) -> bytes:
    proto = TypeProto() if type_ is None else type_proto(type_)
    return proto.SerializeToString()


def _attributes(call: Call, function: FunctionProto) -> dict[str, AttributeProto]:
    """What the body may refer to: defaults of the schema, of the body, and the call's own."""
    schema = defs.get_schema(call.op, call.opset, call.domain)
    defaults = [item.default_value for item in schema.attributes.values()]
    own = NodeProto.FromString(call.attribute_bytes).attribute
    return {
        text(item.name): item
        for item in (*defaults, *function.attribute_proto, *own)
        if item.type != AttributeProto.UNDEFINED
    }


def _resolved(
    nodes: Iterable[NodeProto], attributes: Mapping[str, AttributeProto]
) -> list[NodeProto]:
    """The nodes with what refers to an attribute of the call replaced by it, or left out."""
    found = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for item in node.attribute:
            value = attributes.get(item.ref_attr_name) if item.ref_attr_name else item
            if value is not None:
                copy.attribute.add().CopyFrom(value)
                copy.attribute[-1].name = item.name
                _resolve_body(copy.attribute[-1], attributes)
        found.append(copy)
    return found


def _resolve_body(item: AttributeProto, attributes: Mapping[str, AttributeProto]) -> None:
    if item.type == AttributeProto.GRAPH:
        inner = _resolved(item.g.node, attributes)
        del item.g.node[:]
        item.g.node.extend(inner)
