"""Compute once what several nodes compute alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import AttributeValue, Constant, Graph, Node, value_of
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit

_COMPARED_ELEMENTS = 16
"""assumed: constants up to this size (scalars, axes, pads) are worth loading to compare."""

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class EliminateCommon:
    """Nodes are alike when operator, attributes, inputs and shapes are; every operator is pure."""

    name: ClassVar[str] = "eliminate_common"

    def run(self, graph: Graph) -> PassResult:
        """Keep the first of equal nodes."""
        edit = GraphEdit(graph)
        ops = {node.op for node in graph.nodes}
        while edit.sweep(dict.fromkeys(ops, _Seen().merge)):
            pass
        return edit.result()


@dataclass(slots=True)
class _Seen:
    """Nodes and small constants met so far, by what they are."""

    nodes: dict[_Key, str] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)

    def merge(self, edit: GraphEdit, node: Node) -> None:
        key = self._key(edit, node)
        first = edit.producer(self.nodes.get(key, ""))
        if first is not None:
            edit.forward(node, *first.outputs)
        if edit.producer(self.nodes.get(key, "")) is None:
            # Nothing yet, or the first node has just taken over this one's name.
            self.nodes[key] = next(name for name in node.outputs if name)

    def _key(self, edit: GraphEdit, node: Node) -> _Key:
        attributes = sorted((name, _frozen(value)) for name, value in node.attributes.items())
        inputs = tuple(self._identity(edit, name) for name in node.inputs)
        # The result of a View is told by its shape alone.
        outputs = tuple(edit.shape(name) if name else None for name in node.outputs)
        return (node.op, node.domain, node.opset, tuple(attributes), inputs, outputs)

    def _identity(self, edit: GraphEdit, name: str) -> object:
        constant = edit.constant(name)
        if constant is None:
            return name
        if name not in self.constants:
            self.constants[name] = _contents(constant) or name
        return self.constants[name]


def _contents(constant: Constant) -> tuple[object, ...] | None:
    type_ = constant.type
    if type_.elements > _COMPARED_ELEMENTS or type_.dtype is DType.STRING:
        return None
    return (type_.dtype, type_.shape, value_of(constant).tobytes())


def _frozen(value: AttributeValue) -> object:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return (type(value).__name__, value)
