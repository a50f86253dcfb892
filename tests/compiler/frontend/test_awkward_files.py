from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from compiler.errors import (
    CompileError,
    DoesNotFitError,
    ModelError,
    ModelFileError,
    SymbolError,
    UnsupportedError,
)
from compiler.frontend import OnnxModel, batch_symbol_of, bind, load_model
from compiler.ir.graph import Graph
from tests.compiler.frontend.files import DATA, run
from tests.oracles import graph_to_onnx

_SEQUENCE = 7


@dataclass(frozen=True, slots=True)
class Refusal:
    file: str
    error: type[CompileError]
    says: tuple[str, ...]


_REFUSED = (
    Refusal("external_climb", ModelFileError, ("w1", "etc/hostname", "outside")),
    Refusal("if_dynamic", UnsupportedError, ("branch", "If", "opset 17", "constant condition")),
    Refusal("custom_domain_known", UnsupportedError, ("gelu", "com.microsoft::Gelu", "opset 1")),
    Refusal("custom_domain_unknown", UnsupportedError, ("frob", "acme.ops::Frobnicate")),
    Refusal("unknown_rank", SymbolError, ("'x'", "--input-shape x=")),
    Refusal("multi_io_int64", SymbolError, ("'seq_len'", "'ids'", "--symbol seq_len=INT")),
    Refusal("duplicate_output", ModelError, ("'y'", "2 times")),
    Refusal("cycle", ModelError, ("cycle", "'n1'", "'n2'")),
    Refusal("truncated", ModelFileError, ("not a complete ONNX file",)),
    Refusal("text", ModelFileError, ("not an ONNX file",)),
    Refusal("empty_graph", ModelError, ("nothing to compile",)),
    Refusal("passthrough", ModelError, ("nothing to compile",)),
    Refusal("nonzero", UnsupportedError, ("nz", "NonZero", "opset 17", "cut the graph")),
    Refusal("giant_dims", DoesNotFitError, ("fill", "4.0 TiB")),
)
_COMPILED = (
    "plain_cnn",
    "external_data",
    "fp16_weights",
    "computed_reshape",
    "multi_io_int64",
    "opset7_upsample",
    "newest_opset",
    "conv_kinds",
    "conv3d",
    "einsum",
    "local_function",
    "fp16_range",
    "spaces and ünïcode",
)
_FIXED = ("fixed_batch_1", "loop_constant_trip", "unsorted")
"""Files without a batch symbol, and the batch that they are made for."""


def _bound(file: str, batch_size: int) -> tuple[OnnxModel, Graph]:
    model = load_model(DATA / f"{file}.onnx")
    batch = batch_symbol_of(model)
    symbols = tuple((name, _SEQUENCE) for name in model.symbols if name != batch)
    return model, bind(model, batch_size=batch_size, symbols=symbols)


def _feeds(graph: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        name: rng.integers(0, 2, given.shape).astype(given.dtype.value)
        if not given.dtype.is_float
        else rng.standard_normal(given.shape).astype(given.dtype.value)
        for name, given in ((name, graph.types[name]) for name in graph.inputs)
    }


@pytest.mark.parametrize("case", _REFUSED, ids=lambda case: case.file)
def test_a_file_that_cannot_be_compiled_is_one_clear_line(case: Refusal) -> None:
    with pytest.raises(case.error) as caught:
        bind(load_model(DATA / f"{case.file}.onnx"), batch_size=1)
    text = str(caught.value)
    assert "\n" not in text
    for part in case.says:
        assert part in text


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("file", _COMPILED)
def test_values_shapes_and_types_are_those_of_onnxruntime(file: str, batch_size: int) -> None:
    model, graph = _bound(file, batch_size)
    assert graph.batch_size == batch_size
    feeds = _feeds(graph)
    expected = run(model.path, feeds)
    results = graph_to_onnx.run(graph, feeds)
    for name, result in zip(graph.outputs, results, strict=True):
        assert expected[name].shape == graph.types[name].shape
        assert expected[name].dtype == graph.types[name].dtype.value
        # Half precision of the file's own type, which the oracle runs in single precision.
        tolerance = 2e-2 if expected[name].dtype == np.float16 else 1e-5
        np.testing.assert_allclose(result, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("file", _FIXED)
def test_a_fixed_batch_keeps_its_values(file: str) -> None:
    model = load_model(DATA / f"{file}.onnx")
    graph = bind(model, batch_size=1 if file == "fixed_batch_1" else 4)
    feeds = _feeds(graph)
    expected = run(model.path, feeds) if file != "unsorted" else {"y": np.maximum(-feeds["x"], 0)}
    for name, result in zip(graph.outputs, graph_to_onnx.run(graph, feeds), strict=True):
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=1e-5)


def test_a_loop_with_a_constant_trip_count_is_unrolled() -> None:
    graph = bind(load_model(DATA / "loop_constant_trip.onnx"), batch_size=4)
    assert [node.op for node in graph.nodes if node.op != "Identity"] == ["Add"] * 3


def test_weights_that_no_card_holds_are_bound_without_being_made() -> None:
    tracemalloc.start()
    try:
        graph = bind(load_model(DATA / "too_big_for_card.onnx"), batch_size=2)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (weights,) = graph.constants.values()
    assert weights.type.size_bytes == 65536 * 262144 * 4
    assert peak_bytes < 1 << 20


def test_initializers_that_are_inputs_too_are_weights() -> None:
    _, graph = _bound("opset7_upsample", 1)
    assert graph.inputs == ("x",)
    assert set(graph.constants) == {"s", "b", "m", "v"}
