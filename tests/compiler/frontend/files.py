"""Model files for tests: written from ONNX's text form, and run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto, load, parser

Array = NDArray[Any]

DATA = Path(__file__).parent / "data"
STUDIES = Path(__file__).parents[3] / "studies" / "models"


def model_of(body: str, opset: int = 17, ir_version: int = 8) -> ModelProto:
    """A model from `name (inputs) => (outputs) <initializers> { nodes }`."""
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n'
    return parser.parse_model(header + body)


def written(folder: Path, body: str, opset: int = 17, ir_version: int = 8) -> Path:
    """The path of a new file that holds `model_of(...)`."""
    return saved(folder, model_of(body, opset, ir_version))


def saved(folder: Path, proto: ModelProto) -> Path:
    """The path of a new file that holds `proto`."""
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def run(
    path: Path, feeds: Mapping[str, Array], names: tuple[str, ...] | None = None
) -> dict[str, Array]:
    """Values that onnxruntime gives to `names`, which may be any results; default the outputs."""
    proto = load(path)
    wanted = names or tuple(output.name for output in proto.graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(ValueInfoProto(name=name) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return dict(zip(wanted, session.run(list(wanted), dict(feeds)), strict=True))


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Normal floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
