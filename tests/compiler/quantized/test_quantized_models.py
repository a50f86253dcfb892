from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

from compiler.driver import OnnxCompiler
from compiler.execute.run import execute
from compiler.ir.graph import Graph
from compiler.options import CompileOptions
from compiler.program import Program, TaskKind
from compiler.target import Sku, device
from tests.compiler.frontend.files import DATA
from tests.compiler.quantized import models
from tests.compiler.quantized.models import Floats

_FLOAT_PRODUCTS = frozenset({"Conv", "MatMul", "Gemm", "MatMulBias", "Einsum"})


def _compiled(path: Path, cores: int = 1, batch: int = 1) -> tuple[Program, Graph]:
    compiler, options = OnnxCompiler(), CompileOptions(num_cores=cores, batch_size=batch)
    return compiler.compile(path, options, device(Sku.STD)), compiler.graph(path, options)


def _step(path: Path) -> float:
    """The scale of the last quantised value, by onnx's own reading of the file."""
    model = onnx.load(path)
    known = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    last = [node for node in model.graph.node if node.op_type == "DequantizeLinear"][-1]
    return float(known[last.input[1]].reshape(-1)[0])


def _close(made: Floats, wanted: Floats, step: float, steps: int = 1) -> None:
    """Within some steps of the scale, and the rounding of the result to fp16."""
    rounding = np.abs(wanted) * 2.0**-10
    assert (np.abs(made - wanted) <= steps * step * 1.001 + rounding).all()


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    make=st.sampled_from([models.cnn, models.mlp, models.attention]),
    quant_format=st.sampled_from([QuantFormat.QDQ, QuantFormat.QOperator]),
    per_channel=st.booleans(),
    kind=st.sampled_from([QuantType.QInt8, QuantType.QUInt8]),
    weight=st.sampled_from([QuantType.QInt8, QuantType.QUInt8]),
    cores=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
)
def test_static_models_run_in_int8_and_give_onnxruntimes_values(
    tmp_path: Path,
    make: models.Make,
    quant_format: QuantFormat,
    per_channel: bool,
    kind: QuantType,
    weight: QuantType,
    cores: int,
    seed: int,
) -> None:
    path, quantised = tmp_path / "float.onnx", tmp_path / "quantised.onnx"
    feeds = models.samples(make(path, np.random.default_rng(seed)), seed=seed)
    # onnxruntime offers no such pair.
    assume((kind, weight) != (QuantType.QInt8, QuantType.QUInt8))
    # The reference multiplies in instructions that saturate unless weights keep 7 bits.
    quantize_static(
        path,
        quantised,
        models.reader(feeds),
        quant_format=quant_format,
        per_channel=per_channel,
        activation_type=kind,
        weight_type=weight,
        reduce_range=True,
    )
    program, graph = _compiled(quantised, cores, batch=feeds[0]["x"].shape[0])
    assert not [node.op for node in graph.nodes if node.op in _FLOAT_PRODUCTS]
    assert not (program.tasks.kind == TaskKind.MATMUL).any()
    made = execute(program, graph, feeds[0])["y"]
    wanted, step = models.reference(quantised, feeds[0]), _step(quantised)
    # Where fp16 shifts an inner value over the border to the next integer, the steps add up.
    _close(made, wanted, step, steps=3)
    assert (np.abs(made - wanted) <= step * 1.1).mean() > 0.75


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    make=st.sampled_from([models.cnn, models.mlp, models.attention]),
    per_channel=st.booleans(),
    weight=st.sampled_from([QuantType.QInt8, QuantType.QUInt8]),
    seed=st.integers(0, 1000),
)
def test_dynamic_models_scale_at_run_time(
    tmp_path: Path, make: models.Make, per_channel: bool, weight: QuantType, seed: int
) -> None:
    path, quantised = tmp_path / "float.onnx", tmp_path / "quantised.onnx"
    feeds = models.samples(make(path, np.random.default_rng(seed)), 1, seed)[0]
    quantize_dynamic(
        path, quantised, per_channel=per_channel, weight_type=weight, reduce_range=True
    )
    program, graph = _compiled(quantised, 2, batch=feeds["x"].shape[0])
    assert (program.tasks.kind == TaskKind.MATMUL_INT8).any()
    assert not [node.op for node in graph.nodes if node.op in ("Cast", "MatMulInteger")]
    wanted = models.reference(quantised, feeds)
    made = execute(program, graph, feeds)["y"]
    # No step of the result is known: it is a float. Steps of inputs are 1/255 of their range.
    assert np.abs(made - wanted).max() <= np.abs(wanted).max() / 100


def test_the_awkward_file_keeps_bytes_between_quantise_and_dequantise() -> None:
    path = DATA / "qdq_int8.onnx"
    program, graph = _compiled(path, 2)
    assert [node.op for node in graph.nodes] == ["Quantize", "QuantizedConv", "Dequantize"]
    assert (program.tasks.kind == TaskKind.MATMUL_INT8).any()
    feeds = {"x": np.random.default_rng(4).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    _close(execute(program, graph, feeds)["y"], models.reference(path, feeds), _step(path))


def test_weights_take_one_byte(tmp_path: Path) -> None:
    plain, quantised = tmp_path / "float.onnx", tmp_path / "quantised.onnx"
    feeds = models.samples(models.mlp(plain, np.random.default_rng(0), 256))
    quantize_static(plain, quantised, models.reader(feeds))
    fp16, int8 = (_compiled(path, batch=2)[0] for path in (plain, quantised))
    assert sum(layer.weight_bytes for layer in int8.layers) < 0.6 * sum(
        layer.weight_bytes for layer in fp16.layers
    )


def _qdq(op: str, zero: int = 3, **attributes: Any) -> onnx.ModelProto:
    """DQ, an operator that moves, Q, around in- and outputs of bytes."""
    scale = numpy_helper.from_array(np.asarray(0.1, np.float32), "s")
    point = numpy_helper.from_array(np.asarray(zero, np.uint8), "z")
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["f"]),
        helper.make_node(op, ["f"], ["g"], **attributes),
        helper.make_node("QuantizeLinear", ["g", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "moves",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [scale, point],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Transpose", {"perm": [0, 2, 3, 1]}),
        ("Flatten", {"axis": 1}),
        ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("DepthToSpace", {"blocksize": 2}),
        ("GlobalMaxPool", {}),
    ],
)
def test_moves_between_equal_scales_move_bytes(
    tmp_path: Path, op: str, attributes: dict[str, Any]
) -> None:
    path = tmp_path / "moves.onnx"
    onnx.save(_qdq(op, **attributes), path)
    program, graph = _compiled(path)
    assert not [node.op for node in graph.nodes if "uantize" in node.op]
    x = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
    made = execute(program, graph, {"x": x})["y"]
    np.testing.assert_array_equal(made, models.reference(path, {"x": x}))


@st.composite
def _convs(draw: st.DrawFn) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """One convolution from bytes to bytes."""
    groups = draw(st.sampled_from([1, 2, 3]))
    inputs, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    attributes: dict[str, Any] = {
        "group": groups,
        "strides": draw(st.lists(st.integers(1, 2), min_size=2, max_size=2)),
        "dilations": draw(st.lists(st.integers(1, 2), min_size=2, max_size=2)),
        "pads": draw(st.lists(st.integers(0, 1), min_size=4, max_size=4)),
    }
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    per_channel = draw(st.booleans())
    count = outputs if per_channel else 1
    scales = rng.uniform(0.01, 0.1, count).astype(np.float32)
    constants = {
        "xs": np.float32(0.05),
        "xz": np.int8(draw(st.integers(-128, 127))),
        "w": rng.integers(-127, 128, (outputs, inputs // groups, *kernel)).astype(np.int8),
        "ws": scales if per_channel else scales[0],
        "wz": np.zeros(count, np.int8) if per_channel else np.int8(0),
        "b": rng.integers(-5000, 5000, outputs).astype(np.int32),
        "bs": scales * np.float32(0.05) if per_channel else scales[0] * np.float32(0.05),
        "ys": np.float32(0.2),
        "yz": np.uint8(draw(st.integers(0, 255))),
    }
    axis: dict[str, Any] = {"axis": 0} if per_channel else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], **axis),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"], **axis),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node(
            "QuantizeLinear", ["r" if draw(st.booleans()) else "c", "ys", "yz"], ["y"]
        ),
    ]
    shape = (2, inputs, draw(st.integers(5, 9)), draw(st.integers(5, 9)))
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.INT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), shape


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(made=_convs(), cores=st.sampled_from([1, 4]), seed=st.integers(0, 99))
def test_a_convolution_of_bytes_is_exact_but_for_ties(
    tmp_path: Path, made: tuple[onnx.ModelProto, tuple[int, ...]], cores: int, seed: int
) -> None:
    model, shape = made
    path = tmp_path / "conv.onnx"
    onnx.save(model, path)
    x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    program, graph = _compiled(path, cores, batch=2)
    assert [node.op for node in graph.nodes] == ["QuantizedConv"]
    result = execute(program, graph, {"x": x})["y"].astype(np.int64)
    wanted = models.reference(path, {"x": x}).astype(np.int64)
    assert np.abs(result - wanted).max() <= 1
    assert (result != wanted).mean() < 0.02


def test_other_scales_behind_a_move_change_the_numbers(tmp_path: Path) -> None:
    model = _qdq("MaxPool", kernel_shape=[2, 2])
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(0.25, np.float32), "s2"))
    model.graph.node[-1].input[1] = "s2"
    path = tmp_path / "rescaled.onnx"
    onnx.save(model, path)
    program, graph = _compiled(path)
    x = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
    made = execute(program, graph, {"x": x})["y"].astype(np.int64)
    assert np.abs(made - models.reference(path, {"x": x})).max() <= 1


def test_a_constant_factor_and_summand_behind_a_product_are_its_own(tmp_path: Path) -> None:
    model, shape = _one_matmul()
    path = tmp_path / "scaled.onnx"
    onnx.save(model, path)
    program, graph = _compiled(path, 2, batch=shape[0])
    assert [node.op for node in graph.nodes] == ["QuantizedMatMul"]
    x = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    made = execute(program, graph, {"x": x})["y"]
    wanted = models.reference(path, {"x": x})
    np.testing.assert_allclose(made, wanted, rtol=2e-3, atol=2e-3)


def _one_matmul() -> tuple[onnx.ModelProto, tuple[int, int]]:
    """A product of bytes, twice scaled, with a bias that is added between."""
    rng = np.random.default_rng(0)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(100),
        "w": rng.integers(-127, 128, (20, 7)).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, 7).astype(np.float32),
        "wz": np.zeros(7, np.int8),
        "k": np.float32(0.125),
        "b": rng.standard_normal(7).astype(np.float32),
        "v": rng.standard_normal((1, 7)).astype(np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1),
        helper.make_node("MatMul", ["xf", "wf"], ["m"]),
        helper.make_node("Mul", ["m", "k"], ["scaled"]),
        helper.make_node("Add", ["scaled", "b"], ["biased"]),
        helper.make_node("Mul", ["v", "biased"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "matmul",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (5, 20))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), (5, 20)
