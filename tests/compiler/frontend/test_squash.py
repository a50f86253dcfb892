"""A squashed model is the same model to onnxruntime, and never half a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import ModelFileError
from compiler.frontend import squash as squashing
from compiler.frontend.squash import squash


@pytest.fixture
def source(tmp_path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 16])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "model.onnx"
    onnx.save_model(
        helper.make_model(graph, opset_imports=opsets, ir_version=9),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return path


def test_the_values_stay(source: Path, tmp_path: Path) -> None:
    feeds = {"x": np.arange(32, dtype=np.float32).reshape(2, 16)}
    expected = onnxruntime.InferenceSession(source).run(None, feeds)[0]
    target = tmp_path / "elsewhere" / "one.onnx"
    target.parent.mkdir()
    assert squash(source, target) == target.stat().st_size
    (tmp_path / "weights.bin").unlink()
    assert np.array_equal(onnxruntime.InferenceSession(target).run(None, feeds)[0], expected)
    assert [path.name for path in target.parent.iterdir()] == ["one.onnx"]


def test_a_result_above_the_limit_is_refused_with_both_numbers(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(squashing, "LARGEST_BYTES", 1000)
    with pytest.raises(ModelFileError, match=r"would have 1\d\d\d bytes, .* may have 1000"):
        squash(source, tmp_path / "big.onnx")
    assert not (tmp_path / "big.onnx").exists()


def test_missing_weights_and_folders_are_told(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot write"):
        squash(source, tmp_path / "nowhere" / "one.onnx")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelFileError, match=r"weights\.bin"):
        squash(source, tmp_path / "one.onnx")
