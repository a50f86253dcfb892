"""Small graphs for the tests of passes: constants with values, shapes broadcast or given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.ir.dtypes import DType
from compiler.ir.graph import AttributeValue, Constant, Graph, Node, TensorType
from compiler.passes import Pass, PassResult
from tests.oracles.graph_to_onnx import compare

Array = NDArray[Any]
NONE: Mapping[str, AttributeValue] = MappingProxyType({})


class Sketch:
    """Adds nodes one after another; each call returns the name of the new value."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}

    def input(self, *shape: int, dtype: DType = DType.FLOAT32) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(name)
        self.types[name] = TensorType(dtype, shape)
        return name

    def constant(self, values: object, dtype: type | None = None) -> str:
        """Python floats become float32, integers int64."""
        array = np.asarray(values, dtype=dtype)
        if array.dtype == np.float64 and dtype is None:
            array = array.astype(np.float32)
        name = f"c{len(self.constants)}"
        self.types[name] = TensorType(DType(array.dtype.name), array.shape)
        self.constants[name] = Constant(self.types[name], lambda: array)
        return name

    def random(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.constant(self.rng.uniform(low, high, shape).astype(np.float32))

    def node(
        self,
        op: str,
        *inputs: str,
        shape: tuple[int, ...] | None = None,
        dtype: DType | None = None,
        domain: str = "",
        outputs: int = 1,
        attributes: Mapping[str, AttributeValue] = NONE,
        **more: AttributeValue,
    ) -> str:
        if shape is None:
            shapes = [self.types[name].shape for name in inputs if name]
            shape = np.broadcast_shapes(*shapes)
        name = f"{op.lower()}{len(self.nodes)}"
        names = (name, *(f"{name}.{i}" for i in range(1, outputs)))
        kind = dtype or self.types[inputs[0]].dtype
        self.types.update(dict.fromkeys(names, TensorType(kind, shape)))
        opset = self.opset if domain == "" else 1
        self.nodes.append(
            Node(f"n_{name}", op, domain, opset, inputs, names, {**attributes, **more})
        )
        return name

    def graph(self, *outputs: str) -> Graph:
        return Graph(
            name="sketch",
            inputs=tuple(self.inputs),
            outputs=outputs,
            nodes=tuple(self.nodes),
            types=dict(self.types),
            constants=dict(self.constants),
            batch_size=1,
        )


def ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def only(graph: Graph, op: str) -> Node:
    (node,) = [node for node in graph.nodes if node.op == op]
    return node


def checked(step: Pass, graph: Graph) -> PassResult:
    """Run a pass; its result has the same values and does not change again."""
    result = step.run(graph)
    assert result.changed == (result.graph != graph)
    again = step.run(result.graph)
    assert not again.changed
    assert again.graph is result.graph
    assert result.graph.inputs == graph.inputs
    assert result.graph.outputs == graph.outputs
    error, allowed = compare(graph, result.graph)
    assert error <= allowed, f"values differ by {error:.3g}, rounding may cause {allowed:.3g}"
    return result


def unchanged(step: Pass, graph: Graph) -> None:
    """The pass has nothing to do here."""
    assert not step.run(graph).changed
