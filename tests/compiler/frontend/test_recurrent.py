from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend import bind, load_model
from tests.compiler.frontend.files import Array, random, run, saved
from tests.oracles import graph_to_onnx

_STEPS, _SAMPLES, _INPUTS, _HIDDEN = 5, 3, 4, 6
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class Layer:
    op: str
    direction: str = "forward"
    bias: bool = True
    states: bool = True
    reset_after: bool = False
    opset: int = 17

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("y", "h", "c") if self.op == "LSTM" else ("y", "h")


_LAYERS = (
    *(Layer(op, direction) for op in _GATES for direction in ("forward", "reverse")),
    *(Layer(op, "bidirectional") for op in _GATES),
    *(Layer(op, bias=False, states=False) for op in _GATES),
    Layer("GRU", "bidirectional", reset_after=True),
    Layer("GRU", bias=False, reset_after=True),
    Layer("LSTM", "bidirectional", opset=11),
)


def _model(layer: Layer) -> ModelProto:
    """The layer with random weights, and inputs x, h0 and c0 that may hold any batch `n`."""
    directions, gates = 1 + (layer.direction == "bidirectional"), _GATES[layer.op]
    size = gates * _HIDDEN
    weights = {
        "w": random((directions, size, _INPUTS), 1),
        "r": random((directions, size, _HIDDEN), 2),
    }
    inputs: dict[str, list[int | str]] = {"x": [_STEPS, "n", _INPUTS]}
    if layer.bias:
        weights["b"] = random((directions, 2 * size), 3)
    if layer.states:
        inputs |= {name: [directions, "n", _HIDDEN] for name in _state_names(layer)}
    operands = ["x", "w", "r", "b" if layer.bias else "", ""]
    node = helper.make_node(
        layer.op,
        operands + (_state_names(layer) if layer.states else []),
        layer.outputs,
        name="layer",
        hidden_size=_HIDDEN,
        direction=layer.direction,
    )
    if layer.reset_after:
        node.attribute.append(helper.make_attribute("linear_before_reset", 1))
    graph = helper.make_graph(
        [node],
        "g",
        [_value(name, dims) for name, dims in inputs.items()],
        [_value(name, None) for name in layer.outputs],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    opsets = [helper.make_opsetid("", layer.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _state_names(layer: Layer) -> list[str]:
    return ["h0", "c0"] if layer.op == "LSTM" else ["h0"]


def _value(name: str, dims: list[int | str] | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def _feeds(layer: Layer) -> dict[str, Array]:
    directions = 1 + (layer.direction == "bidirectional")
    feeds = {"x": random((_STEPS, _SAMPLES, _INPUTS), 4)}
    if layer.states:
        shape = (directions, _SAMPLES, _HIDDEN)
        feeds |= {name: random(shape, 5 + at) for at, name in enumerate(_state_names(layer))}
    return feeds


@pytest.mark.parametrize("layer", _LAYERS, ids=str)
def test_an_unrolled_layer_has_the_values_of_onnxruntime(layer: Layer, tmp_path: Path) -> None:
    path = saved(tmp_path, _model(layer))
    graph = bind(load_model(path), batch_size=_SAMPLES, batch_symbol="n")
    expected = run(path, _feeds(layer))
    for name, result in zip(graph.outputs, graph_to_onnx.run(graph, _feeds(layer)), strict=True):
        assert graph.types[name].shape == expected[name].shape
        # Sums of at most ten float32 terms, over five steps of functions with slope one or less.
        np.testing.assert_allclose(result, expected[name], rtol=2e-5, atol=2e-5)


def test_the_weights_are_shared_by_all_steps(tmp_path: Path) -> None:
    layer = Layer("GRU")
    graph = bind(load_model(saved(tmp_path, _model(layer))), batch_size=_SAMPLES, batch_symbol="n")
    floats = [item.type.elements for item in graph.constants.values() if item.type.dtype.is_float]
    parameters = 3 * _HIDDEN * (_INPUTS + _HIDDEN + 2)
    assert sum(floats) == parameters


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("clip", 3.0, "clip"),
        ("activations", ["Relu", "Tanh", "Tanh"], "activations Relu, Tanh, Tanh"),
    ],
)
def test_variants_are_refused_by_name(
    name: str, value: float | int | list[str], says: str, tmp_path: Path
) -> None:
    model = _model(Layer("LSTM"))
    model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    with pytest.raises(UnsupportedError, match=f"'layer' .*LSTM, opset 17. with {says} is not"):
        bind(load_model(saved(tmp_path, model)), batch_size=2, batch_symbol="n")


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    model = _model(Layer("LSTM"))
    wrong = random((1, 24, _INPUTS + 1))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(wrong, "w"))
    with pytest.raises(ModelError, match=r"'layer' .*weights are \[1, 24, 5\]"):
        bind(load_model(saved(tmp_path, model)), batch_size=2, batch_symbol="n")
