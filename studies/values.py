"""Values of compiled programs against onnxruntime: `python -m studies.values MODEL_OR_DIR...`.

Each model is compiled, its program executed tile by tile on random inputs, and its outputs are
held against onnxruntime's in float32. Weights that a graph generates (ConstantOfShape) are
replaced by random ones of the scale that keeps activations near one. An error is given as a share
of the output's largest value; what fp16 alone does is told apart by a run without rounding.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from zlib import crc32

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError
from compiler.execute.graph import run_graph
from compiler.execute.run import execute
from compiler.options import CompileOptions
from compiler.target import Sku, device
from configurator.cli.arguments import parse_input_shapes

Values = dict[str, NDArray[np.generic]]

_WEIGHT_ELEMENTS = 256
"""Generated constants above this are weights; below it they may be shapes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Largest errors over all outputs, as shares of the output's largest value."""

    model: str
    tasks: int
    exact: float
    rounded: float
    seconds: float


def with_weights(model: ModelProto) -> ModelProto:
    """The model with random weights where it generates equal ones."""
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    kept, made = [], []
    for node in model.graph.node:
        shape = constants.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None or prod(map(int, shape)) <= _WEIGHT_ELEMENTS or not _is_float(node):
            kept.append(node)
            continue
        made.append(numpy_helper.from_array(_random(node.output[0], shape), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(made)
    return model


def _is_float(node: onnx.NodeProto) -> bool:
    values = [a.t for a in node.attribute if a.name == "value"]
    return not values or values[0].data_type == onnx.TensorProto.FLOAT


def _random(name: str, shape: NDArray[np.generic]) -> NDArray[np.float32]:
    extents = tuple(int(extent) for extent in shape)
    rng = np.random.default_rng(crc32(name.encode()))
    values = rng.standard_normal(extents).astype(np.float32)
    if len(extents) == 1:
        return np.abs(values) * np.float32(0.1) + np.float32(0.5)
    fan_in = prod(extents[1:]) if len(extents) > 2 else extents[0]
    return values / np.float32(np.sqrt(max(fan_in, 1)))


def inputs_of(compiler: OnnxCompiler, path: Path, options: CompileOptions) -> Values:
    """Random inputs of the graph's shapes; integers are small enough for any vocabulary."""
    graph, rng = compiler.graph(path, options), np.random.default_rng(0)
    found: Values = {}
    for name in graph.inputs:
        type_ = graph.types[name]
        if type_.dtype.is_float:
            found[name] = rng.standard_normal(type_.shape).astype(type_.dtype.value)
        else:
            found[name] = rng.integers(0, 2, type_.shape).astype(type_.dtype.value)
    return found


def compare(path: Path, options: CompileOptions) -> Comparison:
    """Compile, execute, and compare with onnxruntime."""
    began = time.perf_counter()
    compiler = OnnxCompiler()
    program = compiler.compile(path, options, device(Sku.STD))
    graph, inputs = compiler.graph(path, options), inputs_of(compiler, path, options)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feeds = {item.name: inputs[item.name] for item in session.get_inputs()}
    truth = dict(zip(names, session.run(names, feeds), strict=True))
    return Comparison(
        path.stem,
        len(program.tasks),
        _error(truth, run_graph(graph, inputs, rounds=False)),
        _error(truth, execute(program, graph, inputs)),
        time.perf_counter() - began,
    )


def _error(truth: Values, found: Values) -> float:
    worst = 0.0
    for name, expected in truth.items():
        wanted = np.asarray(expected, dtype=np.float64)
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-9)
        difference = np.abs(wanted - np.asarray(found[name], dtype=np.float64))
        worst = max(worst, float(difference.max(initial=0.0)) / scale)
    return worst


def _models(given: Sequence[Path]) -> list[Path]:
    found = [sorted(item.glob("*.onnx")) if item.is_dir() else [item] for item in given]
    return [path for paths in found for path in paths]


def _row(path: Path, folder: Path, options: CompileOptions) -> str:
    prepared = folder / path.name
    onnx.save(with_weights(onnx.load(path)), prepared, save_as_external_data=True)
    try:
        found = compare(prepared, options)
    except CompileError as error:
        return f"{path.stem:40} refused: {error}"
    return (
        f"{found.model:40} {found.tasks:8,} {found.exact:10.1e} {found.rounded:10.1e} "
        f"{found.seconds:8.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--symbol", action="append", default=[], metavar="NAME=INT")
    parser.add_argument("--input-shape", action="append", default=[], metavar="NAME=1x3x8x8")
    asked = parser.parse_args(arguments)
    symbols = tuple(sorted((s.split("=")[0], int(s.split("=")[1])) for s in asked.symbol))
    options = CompileOptions(
        num_cores=asked.cores,
        batch_size=asked.batch_size,
        symbols=symbols,
        input_shapes=parse_input_shapes(asked.input_shape),
    )
    print(f"{'model':40} {'tasks':>8} {'float32':>10} {'fp16':>10} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for path in _models(asked.models):
            print(_row(path, Path(folder), options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
