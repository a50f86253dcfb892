"""Small float models, onnxruntime's quantised forms of them, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Floats = NDArray[np.float32]
Values = NDArray[Any]
Make = Callable[[Path, np.random.Generator], Path]


class Sketch:
    """A float model under construction, weights drawn from a generator."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shape = shape

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node; gives the name of its result."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *shape: int, scale: float = 0.3) -> str:
        """A random constant."""
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, values: NDArray[np.generic]) -> str:
        """A given constant."""
        name = f"w_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def save(self, path: Path, result: str) -> Path:
        """The model with input `x` and output `y`."""
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="identity_y"))
        graph = helper.make_graph(
            self.nodes,
            "sketch",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self.weights,
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def cnn(path: Path, rng: np.random.Generator, channels: int = 6, size: int = 9) -> Path:
    """Convolutions, a residual, a depthwise one, a pool, a classifier."""
    made = Sketch(rng, (1, 3, size, size))
    stem = made.op(
        "Conv", "x", made.weight(channels, 3, 3, 3), made.weight(channels), pads=[1] * 4
    )
    stem = made.op("Relu", stem)
    deep = made.op("Conv", stem, made.weight(channels, 1, 3, 3), pads=[1] * 4, group=channels)
    deep = made.op("Conv", deep, made.weight(channels, channels, 1, 1), made.weight(channels))
    both = made.op("Relu", made.op("Add", stem, deep))
    pooled = made.op("MaxPool", both, kernel_shape=[2, 2], strides=[2, 2])
    joined = made.op("Concat", pooled, pooled, axis=1)
    mean = made.op("GlobalAveragePool", joined)
    flat = made.op("Flatten", mean)
    out = made.op("Gemm", flat, made.weight(5, 2 * channels), made.weight(5), transB=1)
    return made.save(path, out)


def mlp(path: Path, rng: np.random.Generator, width: int = 12) -> Path:
    """Fully connected layers, by Gemm and by MatMul and Add."""
    made = Sketch(rng, (2, width))
    value = made.op("Gemm", "x", made.weight(width, 20), made.weight(20))
    value = made.op("Sigmoid", value)
    value = made.op("Add", made.op("MatMul", value, made.weight(20, 7)), made.weight(7))
    value = made.op("Relu", value)
    return made.save(path, made.op("MatMul", value, made.weight(7, 3)))


def attention(path: Path, rng: np.random.Generator, width: int = 8, length: int = 5) -> Path:
    """One head's worth of attention, two heads wide, and a softmax between."""
    made = Sketch(rng, (1, length, width))
    shape = made.constant(np.array([1, length, 2, width // 2], np.int64))
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        value = made.op("MatMul", "x", made.weight(width, width))
        value = made.op("Add", value, made.weight(width))
        heads.append(made.op("Transpose", made.op("Reshape", value, shape), perm=perm))
    scores = made.op("Softmax", made.op("MatMul", heads[0], heads[1]), axis=-1)
    mixed = made.op("Transpose", made.op("MatMul", scores, heads[2]), perm=[0, 2, 1, 3])
    flat = made.op("Reshape", mixed, made.constant(np.array([1, length, width], np.int64)))
    return made.save(path, made.op("MatMul", flat, made.weight(width, width)))


def samples(path: Path, count: int = 8, seed: int = 0) -> list[dict[str, Floats]]:
    """Random inputs of a model."""
    rng = np.random.default_rng(seed)
    value = onnx.load(path).graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(count)]


def reader(feeds: list[dict[str, Floats]]) -> object:
    """The samples as onnxruntime's calibration wants them."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.items: Iterator[dict[str, Floats]] = iter(feeds)

        def get_next(self) -> dict[str, Floats] | None:
            return next(self.items, None)

    return Reader()


def reference(path: Path, feeds: Mapping[str, Values]) -> Values:
    """onnxruntime's result without its own fusions.

    Those run 8-bit products in instructions that saturate on machines without VNNI.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    result: Values = session.run(None, dict(feeds))[0]
    return result
