from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantFormat, quantize_dynamic, quantize_static

from compiler.frontend import bind, load_model
from compiler.ir.verify import verify
from compiler.passes.quantization import Quantization
from tests.compiler.quantized import models


@pytest.mark.parametrize("form", ["qdq", "qoperator", "dynamic"])
@pytest.mark.parametrize("make", [models.cnn, models.mlp, models.attention])
def test_promises_of_a_pass(tmp_path: Path, make: models.Make, form: str) -> None:
    path, quantised = make(tmp_path / "f.onnx", np.random.default_rng(0)), tmp_path / "q.onnx"
    feeds = models.samples(path, 2)
    if form == "dynamic":
        quantize_dynamic(path, quantised)
    else:
        kind = QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator
        quantize_static(path, quantised, models.reader(feeds), quant_format=kind)
    graph = bind(load_model(quantised), batch_size=feeds[0]["x"].shape[0])
    first = Quantization().run(graph)
    verify(first.graph)
    assert first.changed
    assert first.graph.outputs == graph.outputs
    assert [first.graph.types[name] for name in graph.outputs] == [
        graph.types[name] for name in graph.outputs
    ]
    again = Quantization().run(first.graph)
    assert not again.changed
    assert again.graph is first.graph


def test_a_float_model_is_left_alone(tmp_path: Path) -> None:
    path = models.cnn(tmp_path / "f.onnx", np.random.default_rng(0))
    graph = bind(load_model(path), batch_size=1)
    assert Quantization().run(graph).graph is graph
