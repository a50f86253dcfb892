"""Nodes and graphs of a model file, decoded once: plain Python in place of protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from compiler.errors import ModelError, ModelFileError, UnsupportedError
from compiler.frontend.external_data import Span
from compiler.frontend.tensors import constant_of, literal
from compiler.frontend.text import text, texts
from compiler.ir.graph import AttributeValue, Constant, value_of


def _no_attributes() -> Mapping[str, AttributeValue]:
    return MappingProxyType({})


def _no_bodies() -> Mapping[str, Body]:
    return MappingProxyType({})


class Signature(NamedTuple):
    """All that shape inference needs of a call but its operands; hashable.

    `present` says which inputs and which outputs are not left out; `attributes` are the
    serialized attributes.
    """

    op: str
    domain: str
    opset: int
    present: tuple[tuple[bool, ...], tuple[bool, ...]]
    attributes: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One node. `bodies` are its subgraphs, `literal` is the value of a `Constant` node.

    `reads` are the names it needs: its inputs, and what its subgraphs capture.
    """

    name: str
    op: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=_no_attributes)
    attribute_bytes: bytes = b""
    bodies: Mapping[str, Body] = field(default_factory=_no_bodies)
    literal: Constant | None = None

    @property
    def signature(self) -> Signature:
        """See `Signature`."""
        present = (tuple(map(bool, self.inputs)), tuple(map(bool, self.outputs)))
        return Signature(self.op, self.domain, self.opset, present, self.attribute_bytes)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values that must be there before the call; none is empty."""
        captured = [name for body in self.bodies.values() for name in body.captures]
        return (*filter(None, self.inputs), *captured)

    @property
    def label(self) -> str:
        """How error texts name it: node, operator, opset."""
        domain = self.domain or "ai.onnx"
        return f"node '{self.name}' ({domain}::{self.op}, opset {self.opset})"


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A graph: the model's, or one of a branch or loop, which may use names from around it."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    constants: Mapping[str, Constant]

    @property
    def captures(self) -> tuple[str, ...]:
        """Names that it uses but does not define."""
        own = {*self.inputs, *self.constants}
        own.update(name for call in self.calls for name in call.outputs)
        used = [*self.outputs, *(name for call in self.calls for name in call.reads)]
        return tuple(dict.fromkeys(name for name in used if name not in own))


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """What decoding needs of the model around a node.

    `opsets` maps a domain ('' is the default one) to the version that the model imports.
    """

    folder: Path
    opsets: Mapping[str, int]
    embedded: Mapping[str, Span] = field(default_factory=lambda: MappingProxyType({}))

    def body(self, graph: GraphProto) -> Body:
        """Decode a graph; initializers that are also inputs are constants."""
        if graph.sparse_initializer:
            raise UnsupportedError(
                f"graph '{graph.name}' has sparse initializers; export it with dense weights"
            )
        constants = self._initializers(graph)
        inputs = texts(value.name for value in graph.input if value.name not in constants)
        calls = tuple(self._call(node, index) for index, node in enumerate(graph.node))
        return Body(inputs, texts(value.name for value in graph.output), calls, constants)

    def function(self, proto: FunctionProto, nodes: Iterable[NodeProto]) -> Body:
        """Decode a function of which `nodes` are the nodes, with no reference to attributes."""
        calls = tuple(self._call(node, index) for index, node in enumerate(nodes))
        return Body(texts(proto.input), texts(proto.output), calls, {})

    def _initializers(self, graph: GraphProto) -> dict[str, Constant]:
        constants: dict[str, Constant] = {}
        for tensor in graph.initializer:
            if tensor.name in constants:
                raise ModelError(f"initializer '{tensor.name}' is defined twice; export it anew")
            constants[tensor.name] = constant_of(
                tensor, self.folder, self.embedded.get(tensor.name)
            )
        return constants

    def _call(self, node: NodeProto, index: int) -> Call:
        op, domain = text(node.op_type), default_domain(text(node.domain))
        name = text(node.name) or f"{op}_{index}"
        opset = self._opset(domain, name)
        inputs, outputs = texts(node.input), texts(node.output)
        if op == "Constant" and not domain:
            value = self._literal(node, name)
            return Call(name, op, domain, opset, (), outputs, literal=value)
        if not node.attribute:
            return Call(name, op, domain, opset, inputs, outputs)
        attributes, bodies = self._attributes(node.attribute, name)
        content = b"" if bodies else NodeProto(attribute=node.attribute).SerializeToString()
        return Call(name, op, domain, opset, inputs, outputs, attributes, content, bodies)

    def _opset(self, domain: str, node: str) -> int:
        if domain not in self.opsets:
            raise ModelError(
                f"node '{node}' uses domain '{domain or 'ai.onnx'}', of which the model imports "
                "no operator set; export it anew"
            )
        return self.opsets[domain]

    def _attributes(
        self, protos: Iterable[AttributeProto], node: str
    ) -> tuple[dict[str, AttributeValue], dict[str, Body]]:
        attributes: dict[str, AttributeValue] = {}
        bodies: dict[str, Body] = {}
        for proto in protos:
            if proto.type == AttributeProto.GRAPH:
                bodies[text(proto.name)] = self.body(proto.g)
            else:
                attributes[text(proto.name)] = self._value(proto, node)
        return attributes, bodies

    def _value(self, proto: AttributeProto, node: str) -> AttributeValue:
        match proto.type:
            case AttributeProto.INT:
                return proto.i
            case AttributeProto.INTS:
                return tuple(proto.ints)
            case AttributeProto.FLOAT:
                return proto.f
            case AttributeProto.FLOATS:
                return tuple(proto.floats)
            case AttributeProto.STRING:
                return _text(proto.s)
            case AttributeProto.STRINGS:
                return tuple(_text(item) for item in proto.strings)
            case AttributeProto.TENSOR:
                return value_of(constant_of(proto.t, self.folder))
        raise UnsupportedError(
            f"node '{node}': attribute '{proto.name}' is of a kind that is not supported; "
            "use numbers, strings or a dense tensor"
        )

    def _literal(self, node: NodeProto, name: str) -> Constant:
        if len(node.attribute) != 1:
            raise ModelError(f"node '{name}' (Constant) has {len(node.attribute)} values, not one")
        proto = node.attribute[0]
        if proto.type == AttributeProto.TENSOR:
            return constant_of(proto.t, self.folder)
        value = self._value(proto, name)
        try:
            return literal(np.asarray(value, dtype=_LITERALS[text(proto.name)]))
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"node '{name}' (Constant): attribute '{proto.name}' is no value"
            ) from error


# What a Constant node without a tensor holds, by attribute (ONNX operators, Constant).
_LITERALS: dict[str, type[np.float32] | type[np.int64] | type[object]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def default_domain(domain: str) -> str:
    """The domain with the default one as the empty string, which has two spellings in files."""
    return "" if domain == "ai.onnx" else domain


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"the text {value!r} is not UTF-8: the file is damaged") from error
