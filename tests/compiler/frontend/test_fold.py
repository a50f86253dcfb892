from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend import bind, load_model
from compiler.ir.graph import Graph, value_of
from tests.compiler.frontend.files import model_of, run, saved, written


@dataclass(frozen=True, slots=True)
class Expression:
    """A node on constants: `z = call`, where `a`, `b`, `c` are initializers."""

    call: str
    constants: str
    opset: int = 17


_A_INT = "int64[2,3] a = {7, -7, 8, -1, 0, 5}"
_A_FLOAT = "float[2,3] a = {0.5, -1.5, 2.5, 3.0, -4.0, 9.0}"
_EXPRESSIONS = (
    Expression("Div (a, b)", f"{_A_INT}, int64[3] b = {{2, 2, -3}}"),
    Expression("Div (a, b)", f"{_A_FLOAT}, float b = {{-3.0}}"),
    Expression("Mod (a, b)", f"{_A_INT}, int64[3] b = {{2, 3, -3}}"),
    Expression("Gather <axis: int = 1> (a, b)", f"{_A_INT}, int64[2] b = {{-1, 0}}"),
    Expression("Gather (a, b)", f"{_A_INT}, int64 b = {{-2}}"),
    Expression("Concat <axis: int = -1> (a, a)", _A_INT),
    Expression("Unsqueeze (a, b)", f"{_A_INT}, int64[2] b = {{0, -1}}"),
    Expression("Unsqueeze <axes: ints = [0, 3]> (a)", _A_INT, opset=11),
    Expression("Squeeze (a, b)", "int64[1,3,1] a = {1, 2, 3}, int64[1] b = {-1}"),
    Expression("Squeeze (a)", "int64[1,3,1] a = {1, 2, 3}"),
    Expression(
        "Slice (a, b, c, d, e)",
        f"{_A_INT}, int64[2] b = {{-1, 0}}, int64[2] c = {{-9, 9}}, int64[2] d = {{1, 0}}, "
        "int64[2] e = {-2, 1}",
    ),
    Expression("Slice (a, b, c)", f"{_A_INT}, int64[1] b = {{1}}, int64[1] c = {{9}}"),
    Expression("Slice <starts: ints = [1], ends: ints = [3], axes: ints = [1]> (a)", _A_INT, 9),
    Expression("Cast <to: int = 7> (a)", _A_FLOAT),
    Expression("Cast <to: int = 10> (a)", _A_FLOAT),
    Expression("Cast <to: int = 9> (a)", _A_INT),
    Expression("Reshape (a, b)", f"{_A_INT}, int64[3] b = {{0, -1, 1}}"),
    Expression("ConstantOfShape (a)", "int64[3] a = {2, 1, 3}"),
    Expression("ConstantOfShape <value: tensor = int32[1] {-4}> (a)", "int64[2] a = {2, 3}"),
    Expression("Range (a, b, c)", "int64 a = {9}, int64 b = {-2}, int64 c = {-4}"),
    Expression("Range (a, b, c)", "float a = {0.5}, float b = {2.0}, float c = {0.4}"),
    Expression("ReduceProd (a)", "int64[3] a = {2, -3, 4}"),
    Expression("ReduceProd <keepdims: int = 0, axes: ints = [0]> (a)", _A_INT),
    Expression("Where (b, a, c)", f"{_A_INT}, bool[3] b = {{1, 0, 1}}, int64 c = {{4}}"),
    Expression("Sub (a, b)", f"{_A_INT}, int64[2,1] b = {{1, 2}}"),
    Expression("Not (a)", "bool[2] a = {1, 0}"),
    Expression("Floor (a)", _A_FLOAT),
    Expression("Max (a, b)", f"{_A_INT}, int64[3] b = {{0, 0, 6}}"),
    Expression("Transpose (a)", _A_INT),
    Expression("Softmax (a)", _A_FLOAT),
    Expression("Trilu (a)", _A_FLOAT),
    Expression("Shape <start: int = -1> (a)", _A_FLOAT),
    Expression("Size (a)", _A_FLOAT),
    Expression("EyeLike <k: int = 1> (a)", _A_FLOAT),
    Expression("Constant <value_floats: floats = [1.5, 2.5]> ()", _A_FLOAT),
    Expression("Constant <value_int: int = 3> ()", _A_FLOAT),
)


def _folded(folder: Path, expression: Expression) -> tuple[Path, Graph]:
    """The expression beside a node that must run, so that there is something to compile."""
    proto = model_of(
        f"g (float[n] x) => (float[n] y, float z) <{expression.constants}> "
        f"{{ y = Relu (x) z = {expression.call} }}",
        expression.opset,
    )
    # The text form wants a type, which is the expression's to decide.
    proto.graph.output[1].ClearField("type")
    path = saved(folder, proto)
    return path, bind(load_model(path), batch_size=2)


@pytest.mark.parametrize("expression", _EXPRESSIONS, ids=lambda item: item.call.split(" (")[0])
def test_a_folded_result_is_what_onnxruntime_computes(
    expression: Expression, tmp_path: Path
) -> None:
    path, graph = _folded(tmp_path, expression)
    expected = run(path, {"x": np.zeros(2, np.float32)})["z"]
    constant = graph.constants["z"]
    values = value_of(constant)
    assert [node.op for node in graph.nodes] == ["Relu"]
    assert constant.type.shape == expected.shape
    assert values.dtype == expected.dtype == constant.type.dtype.value
    # Only Softmax rounds; both sides sum three terms in float32.
    np.testing.assert_allclose(values, expected, rtol=4e-7)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(-6, 6),
    end=st.integers(-8, 8),
    step=st.sampled_from([-3, -2, -1, 1, 2, 3]),
)
def test_any_slice_folds_as_onnxruntime_slices(
    start: int, end: int, step: int, tmp_path: Path
) -> None:
    constants = (
        "int64[5] a = {10, 11, 12, 13, 14}, "
        f"int64[1] b = {{{start}}}, int64[1] c = {{{end}}}, int64[1] d = {{0}}, "
        f"int64[1] e = {{{step}}}"
    )
    path, graph = _folded(tmp_path, Expression("Slice (a, b, c, d, e)", constants))
    expected = run(path, {"x": np.zeros(2, np.float32)})["z"]
    np.testing.assert_array_equal(value_of(graph.constants["z"]), expected)


def test_large_results_are_made_only_when_they_are_asked_for(tmp_path: Path) -> None:
    body = (
        "g (float[n,2048] x) => (float[n,4096] y) <int64[2] s = {4096, 2048}, float two = {2.0}> "
        "{ fill = ConstantOfShape <value: tensor = float[1] {0.25}> (s) "
        "turned = Transpose (fill) w = Mul (turned, two) y = MatMul (x, w) }"
    )
    path = written(tmp_path, body)
    weight_bytes = 4096 * 2048 * 4
    tracemalloc.start()
    try:
        graph = bind(load_model(path), batch_size=1)
        bound_bytes = tracemalloc.get_traced_memory()[1]
        values = value_of(graph.constants["w"])
        loaded_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bound_bytes < weight_bytes / 20 < loaded_bytes
    assert values.shape == (2048, 4096)
    assert np.all(values == np.float32(0.5))


def test_a_long_shared_chain_of_folded_results_is_evaluated_once_each(tmp_path: Path) -> None:
    # Each node reads the one before twice: evaluating anew per use would take 2**60 steps, and
    # recursion per node would be deeper than Python allows.
    count = 1500
    nodes = [helper.make_node("Expand", ["one", "s"], ["v0"])]
    for at in range(count):
        op = "Add" if at < 20 else "Max"
        nodes.append(helper.make_node(op, [f"v{at}", f"v{at}"], [f"v{at + 1}"]))
    nodes.append(helper.make_node("Mul", ["x", f"v{count}"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5000])],
        [
            numpy_helper.from_array(np.ones(1, np.float32), "one"),
            numpy_helper.from_array(np.asarray([5000]), "s"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    bound = bind(load_model(saved(tmp_path, model)), batch_size=1)
    (constant,) = bound.constants.values()
    assert np.all(value_of(constant) == 2.0**20)


def test_results_that_are_random_are_not_folded(tmp_path: Path) -> None:
    expression = Expression("RandomNormal <shape: ints = [2]> ()", _A_FLOAT)
    with pytest.raises(UnsupportedError, match=r"RandomNormal, opset 17.*random"):
        _folded(tmp_path, expression)


def test_an_expression_that_fails_names_its_node(tmp_path: Path) -> None:
    expression = Expression("Gather (a, b)", f"{_A_INT}, int64 b = {{5}}")
    with pytest.raises(ModelError, match=r"'Gather_1' .*Gather, opset 17. cannot be folded"):
        _folded(tmp_path, expression)


def test_a_graph_that_is_all_constants_has_nothing_to_compile(tmp_path: Path) -> None:
    body = "g (float[n] x) => (float[1] y) <float[1] a = {1.0}> { y = Relu (a) }"
    with pytest.raises(ModelError, match="nothing to compile"):
        bind(load_model(written(tmp_path, body)), batch_size=1)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_shape_of_a_running_value_folds(batch_size: int, tmp_path: Path) -> None:
    body = (
        "g (float[n,3,5] x) => (float[a,b] y, int64[k] z) <int64[1] zero = {0}, "
        "int64[1] rest = {-1}> { r = Relu (x) s = Shape (r) n1 = Gather (s, zero) "
        "z = Concat <axis: int = 0> (n1, rest) y = Reshape (r, z) }"
    )
    graph = bind(load_model(written(tmp_path, body)), batch_size=batch_size)
    assert [node.op for node in graph.nodes] == ["Relu", "Reshape"]
    assert value_of(graph.constants["z"]).tolist() == [batch_size, -1]
    assert graph.types["y"].shape == (batch_size, 15)
