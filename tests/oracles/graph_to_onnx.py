"""A graph's values by onnxruntime: the graph written back as an ONNX model.

Every float type becomes float32, as the device computes all floats in one width. The internal
operators are written out as standard ones, and those that are newer than the model's opset as
what onnxruntime knows at any opset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compiler.ir.dtypes import DType
from compiler.ir.graph import AttributeValue, Constant, Graph, Node, TensorType, value_of

Array = NDArray[Any]

FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
_LIST_TYPES = {int: AttributeProto.INTS, float: AttributeProto.FLOATS, str: AttributeProto.STRINGS}
_IR_VERSION = 10
_FORMULA_ROUNDINGS = 4
"""A normalisation or activation rounds about this often from input to output."""


class Comparison(NamedTuple):
    """Largest difference of two runs, and what rounding may cause."""

    error: float
    allowed: float


def to_onnx(graph: Graph) -> ModelProto:
    """`graph` as an ONNX model in float32."""
    nodes = [made for node in graph.nodes for made in _expanded(graph, node)]
    constants = [_initializer(name, constant) for name, constant in graph.constants.items()]
    shapes = [
        numpy_helper.from_array(_view_shape(graph, node), f"{node.outputs[0]}:shape")
        for node in graph.nodes
        if node.op == "View"
    ]
    proto = helper.make_graph(
        nodes,
        "oracle",
        [_value(name, graph.types[name]) for name in graph.inputs],
        [_value(name, graph.types[name]) for name in graph.outputs],
        constants + shapes,
    )
    opset = min((node.opset for node in graph.nodes if node.domain == ""), default=17)
    return helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR_VERSION
    )


def run(graph: Graph, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """The outputs of `graph`, in float32 where they are floats."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), options)
    wanted = {name: _widened(value) for name, value in feeds.items()}
    return tuple(session.run(list(graph.outputs), wanted))


def compare(before: Graph, after: Graph, seed: int = 0) -> Comparison:
    """Run both on the same random inputs; the error is relative to each output's largest value.

    A sum of n float32 products is off by at most n epsilon times the sum of their magnitudes, so
    `allowed` is epsilon times the longest sum in the graph.
    """
    feeds = random_feeds(before, seed)
    pairs = zip(run(before, feeds), run(after, feeds), strict=True)
    errors = [_relative_error(a, b) for a, b in pairs]
    return Comparison(max(errors), FLOAT32_EPSILON * longest_sum(before))


def longest_sum(graph: Graph) -> int:
    """Terms of the longest sum that any node forms; short formulas count as a few."""
    return max((_terms(graph, node) for node in graph.nodes), default=_FORMULA_ROUNDINGS)


def random_feeds(graph: Graph, seed: int) -> dict[str, Array]:
    """Values for every input: normal floats, small integers."""
    rng = np.random.default_rng(seed)
    return {name: _random(rng, graph.types[name]) for name in graph.inputs}


def with_random_weights(graph: Graph, seed: int) -> Graph:
    """The graph with random values in place of constants that hold one repeated float.

    Weights are scaled so that activations keep about their size; variances stay positive.
    """
    rng = np.random.default_rng(seed)
    variances = {n.inputs[4] for n in graph.nodes if n.op == "BatchNormalization"}
    constants = dict(graph.constants)
    for name, constant in graph.constants.items():
        if _is_filled(constant):
            constants[name] = _random_constant(rng, constant.type, positive=name in variances)
    return replace(graph, constants=constants)


def _relative_error(before: Array, after: Array) -> float:
    assert before.shape == after.shape
    assert before.dtype == after.dtype
    if before.size == 0:
        return 0.0
    assert np.all(np.isfinite(before))
    scale = max(float(np.max(np.abs(before))), 1e-30)
    return float(np.max(np.abs(before.astype(np.float64) - after.astype(np.float64)))) / scale


def _terms(graph: Graph, node: Node) -> int:
    first, out = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if node.op in ("Conv", "ConvTranspose"):
        # A transposed convolution's sums are at most this long, a convolution's exactly.
        return graph.types[node.inputs[1]].elements // out.shape[1]
    if node.op in ("MatMul", "MatMulBias", "Gemm"):
        return first.shape[0] if node.int("transA", 0) else first.shape[-1]
    if node.op.startswith("Reduce") or node.op.endswith("Normalization"):
        reduced = first.elements // max(out.elements, 1)
        return max(reduced, first.shape[-1], _FORMULA_ROUNDINGS)
    return first.shape[-1] if node.op == "Softmax" else _FORMULA_ROUNDINGS


def _is_filled(constant: Constant) -> bool:
    if not constant.type.dtype.is_float or constant.type.elements < 2:
        return False
    values = value_of(constant)
    return bool(np.all(values == values.flat[0]))


def _random_constant(rng: np.random.Generator, type_: TensorType, *, positive: bool) -> Constant:
    if positive:
        values = rng.uniform(0.5, 1.5, type_.shape)
    elif len(type_.shape) < 2:
        values = rng.uniform(-1.0, 1.0, type_.shape)
    else:
        terms = type_.shape[0] if len(type_.shape) == 2 else prod(type_.shape[1:])
        values = rng.standard_normal(type_.shape, dtype=np.float32) / np.sqrt(max(terms, 1))
    kept = values.astype(_numpy_type(type_.dtype))
    return Constant(type_, lambda: kept)


def _random(rng: np.random.Generator, type_: TensorType) -> Array:
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(np.float32)
    return rng.integers(0, 2, type_.shape).astype(_numpy_type(type_.dtype))


def _numpy_type(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype.is_float else dtype.value)


def _widened(values: Array) -> Array:
    return values if values.dtype.kind in "biuUSO" else values.astype(np.float32)


def _element_type(dtype: DType) -> int:
    if dtype.is_float:
        return TensorProto.FLOAT
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype.value)))


def _value(name: str, type_: TensorType) -> Any:
    return helper.make_tensor_value_info(name, _element_type(type_.dtype), type_.shape)


def _initializer(name: str, constant: Constant) -> TensorProto:
    return numpy_helper.from_array(_widened(value_of(constant)), name)


def _view_shape(graph: Graph, node: Node) -> Array:
    return np.array(graph.types[node.outputs[0]].shape, dtype=np.int64)


def _expanded(graph: Graph, node: Node) -> list[NodeProto]:
    expand = _EXPANSIONS.get(node.op)
    return expand(graph, node) if expand is not None else [_plain(node)]


def _plain(node: Node) -> NodeProto:
    attributes = [_attribute(name, value) for name, value in node.attributes.items()]
    made = helper.make_node(node.op, node.inputs, node.outputs, name=node.name, domain=node.domain)
    made.attribute.extend(attributes)
    return made


def _attribute(name: str, value: AttributeValue) -> AttributeProto:
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, numpy_helper.from_array(_widened(value)))
    if isinstance(value, tuple):
        kind = _LIST_TYPES[type(value[0])] if value else AttributeProto.INTS
        return helper.make_attribute(name, list(value), attr_type=kind)
    return helper.make_attribute(name, value)


def _cast(graph: Graph, node: Node) -> list[NodeProto]:
    to = _element_type(graph.types[node.outputs[0]].dtype)
    return [helper.make_node("Cast", node.inputs[:1], node.outputs, name=node.name, to=to)]


def _view(graph: Graph, node: Node) -> list[NodeProto]:
    (out,) = node.outputs
    shape = f"{out}:shape"
    return [helper.make_node("Reshape", (node.inputs[0], shape), (out,), name=node.name)]


def _matmul_bias(graph: Graph, node: Node) -> list[NodeProto]:
    (out,) = node.outputs
    product = f"{out}:product"
    return [
        helper.make_node("MatMul", node.inputs[:2], (product,)),
        helper.make_node("Add", (product, node.inputs[2]), (out,)),
    ]


def _silu(graph: Graph, node: Node) -> list[NodeProto]:
    (x,), (out,) = node.inputs, node.outputs
    gate = f"{out}:gate"
    return [helper.make_node("Sigmoid", (x,), (gate,)), helper.make_node("Mul", (x, gate), (out,))]


def _hard_swish(graph: Graph, node: Node) -> list[NodeProto]:
    (x,), (out,) = node.inputs, node.outputs
    gate = f"{out}:gate"
    return [
        helper.make_node("HardSigmoid", (x,), (gate,), alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", (x, gate), (out,)),
    ]


def _mish(graph: Graph, node: Node) -> list[NodeProto]:
    (x,), (out,) = node.inputs, node.outputs
    return [
        helper.make_node("Softplus", (x,), (f"{out}:softplus",)),
        helper.make_node("Tanh", (f"{out}:softplus",), (f"{out}:gate",)),
        helper.make_node("Mul", (x, f"{out}:gate"), (out,)),
    ]


def _rms_normalization(graph: Graph, node: Node) -> list[NodeProto]:
    return [_plain(replace(node, op="SimplifiedLayerNormalization"))]


_EXPANSIONS: dict[str, Callable[[Graph, Node], list[NodeProto]]] = {
    "Cast": _cast,
    "CastLike": _cast,
    "View": _view,
    "MatMulBias": _matmul_bias,
    "Silu": _silu,
    "HardSwish": _hard_swish,
    "Mish": _mish,
    "RMSNormalization": _rms_normalization,
}
