"""Scales and zero points of QuantizeLinear and DequantizeLinear: onnxruntime says which can be."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from compiler.driver import OnnxCompiler
from compiler.errors import ModelError
from compiler.execute.graph import run_graph
from compiler.options import CompileOptions
from tests.compiler.quantized import models

Shape = tuple[int, ...]

SHAPE = (2, 6, 4)
SCALES = ((), (1,), (2,), (6,), (4,), (3,), (1, 1), (2, 6), (2, 3, 4), (2, 6, 2), (1, 6, 4))


def _model(op: str, scales: Shape, zeros: Shape | None, settings_: dict[str, Any]) -> Any:
    rng = np.random.default_rng(prod(scales))
    held = [numpy_helper.from_array(np.asarray(rng.random(scales) + 0.05, np.float32), "scale")]
    if zeros is not None:
        numbers = np.asarray(rng.integers(0, 9, zeros), np.uint8)
        held.append(numpy_helper.from_array(numbers, "zero"))
    node = helper.make_node(op, ["x", *(item.name for item in held)], ["y"], **settings_)
    kinds = (TensorProto.FLOAT, TensorProto.UINT8)
    first, second = kinds if op == "QuantizeLinear" else kinds[::-1]
    x = helper.make_tensor_value_info("x", first, SHAPE)
    y = helper.make_tensor_value_info("y", second, SHAPE)
    graph = helper.make_graph([node], "scales", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _result(path: Path, x: models.Values) -> models.Values | None:
    """`None` where the model is refused."""
    try:
        graph = OnnxCompiler().graph(path, CompileOptions(num_cores=1, batch_size=SHAPE[0]))
    except ModelError as refusal:
        if not re.search("scale|axis", str(refusal)):
            raise
        return None
    return run_graph(graph, {"x": x}, rounds=False)["y"]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    op=st.sampled_from(["QuantizeLinear", "DequantizeLinear"]),
    scales=st.sampled_from(SCALES),
    zeros=st.sampled_from([None, (), "alike"]),
    axis=st.sampled_from([None, 0, 1, 2, -1, 3]),
    block=st.sampled_from([0, 2]),
)
@example(op="DequantizeLinear", scales=(6,), zeros="alike", axis=0, block=0)
def test_what_onnxruntime_takes_gives_its_values_and_the_rest_is_refused(
    tmp_path: Path, op: str, scales: Shape, zeros: Any, axis: int | None, block: int
) -> None:
    path = tmp_path / "scales.onnx"
    given_ = {} if axis is None else {"axis": axis}
    given_ |= {"block_size": block} if block else {}
    onnx.save(_model(op, scales, scales if zeros == "alike" else zeros, given_), path)
    x = np.random.default_rng(3).integers(0, 200, SHAPE)
    feeds = {"x": x.astype(np.float32 if op == "QuantizeLinear" else np.uint8)}
    made = _result(path, feeds["x"])
    try:
        wanted = models.reference(path, feeds)
    except Exception:
        # One scale or one zero point can only mean one thing, whatever its dims.
        assert made is None or (not block and (prod(scales) == 1 or zeros == ()))
        return
    assert made is not None
    assert np.abs(made.astype(np.float64) - wanted.astype(np.float64)).max() <= 1e-3


def test_one_zero_point_stands_for_all(tmp_path: Path) -> None:
    path = tmp_path / "scales.onnx"
    found = []
    for zeros in ((), (6,)):
        model = _model("DequantizeLinear", (6,), zeros, {"axis": 1})
        model.graph.initializer[1].CopyFrom(
            numpy_helper.from_array(np.full(zeros, 7, np.uint8), "zero")
        )
        onnx.save(model, path)
        found.append(_result(path, np.full(SHAPE, 9, np.uint8)))
    assert found[0] is not None
    assert found[1] is not None
    assert np.ptp(found[0]) > 0
    np.testing.assert_array_equal(found[0], found[1])


def test_the_message_has_both_shapes(tmp_path: Path) -> None:
    path = tmp_path / "scales.onnx"
    onnx.save(_model("DequantizeLinear", (6,), None, {"axis": 0}), path)
    told = r"'scale' has shape 6, the scales of 'x' \(2x6x4\) have 2"
    with pytest.raises(ModelError, match=told):
        OnnxCompiler().graph(path, CompileOptions(num_cores=1, batch_size=2))
