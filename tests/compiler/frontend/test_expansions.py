"""Calls that become others: Scan, Einsum, operators with a body; results of declared shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

from compiler.errors import ModelError, SymbolError, UnsupportedError
from compiler.execute.graph import run_graph
from compiler.frontend import bind, load_model
from compiler.ir.graph import Graph, value_of
from tests.compiler.frontend.files import Array, random, run, saved, written

_SCAN = """
g (float[3] h0, float[5,2,3] x) => (float[3] h, float[5,7,2] all, float[5,3] rows)
    <float[7] w = {1, 2, 3, 4, 5, 6, 7}> {
    h, all, rows = Scan <num_scan_inputs = 1, %s,
        body = step (float[3] before, float[2,3] row)
            => (float[3] after, float[7,2] seen, float[3] kept) {
            a = Constant <value_ints: ints = [0]> ()
            sum = ReduceSum <keepdims = 0> (row, a)
            after = Add (before, sum)
            b = Constant <value_ints: ints = [-1]> ()
            last = ReduceSum <keepdims = 0> (row, b)
            c = Unsqueeze (w, b)
            seen = Mul (c, last)
            kept = Neg (after)
        }
    > (h0, x)
}
"""


def _bound(path: Path, batch_size: int = 1) -> Graph:
    return bind(load_model(path), batch_size=batch_size)


def _check(path: Path, feeds: dict[str, Array], batch_size: int = 1) -> Graph:
    graph = _bound(path, batch_size)
    expected = run(path, feeds)
    for name, result in run_graph(graph, feeds, rounds=False).items():
        assert graph.types[name].shape == expected[name].shape == result.shape
        # Sums of at most a hundred float32 terms near one.
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=2e-5)
    return graph


@pytest.mark.parametrize(
    "attributes",
    [
        "scan_input_axes = [0]",
        "scan_input_directions = [1]",
        "scan_output_directions = [1, 0]",
        "scan_output_axes = [0, -1], scan_output_directions = [0, 1]",
    ],
)
def test_a_scan_is_its_steps(attributes: str, tmp_path: Path) -> None:
    body = _SCAN % attributes
    if "scan_output_axes" in attributes:
        body = body.replace("float[5,3] rows", "float[3,5] rows")
    graph = _check(
        written(tmp_path, body), {"h0": random((3,)), "x": random((5, 2, 3), 1)}, batch_size=1
    )
    assert all(node.op != "Scan" for node in graph.nodes)


def test_a_scan_without_equal_extents_is_ill_formed(tmp_path: Path) -> None:
    body = """
    g (float[5,2] x, float[4,2] z) => (y) {
        y = Scan <num_scan_inputs = 2, body = step (float[2] a, float[2] b) => (float[2] c) {
            c = Add (a, b)
        }> (x, z)
    }
    """
    with pytest.raises(ModelError, match=r"Scan, opset 17. scans extents \[4, 5\]"):
        _bound(written(tmp_path, body))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("abc->ca", ((2, 3, 4),)),
        ("abc->b", ((2, 3, 4),)),
        ("...a->a...", ((2, 3, 4),)),
        ("ba", ((2, 3),)),
        ("dcba", ((2, 3, 4, 5),)),
        ("c...a", ((2, 3, 4, 5),)),
        ("ab->", ((2, 3),)),
        ("ab->ab", ((2, 3),)),
        ("a,a", ((6,), (6,))),
        ("ab,cb->", ((2, 3), (4, 3))),
        ("...ab,...bc->...ac", ((5, 2, 3), (5, 3, 4))),
        ("...ab,bc->...ac", ((5, 2, 3), (3, 4))),
        ("ab,bc", ((2, 3), (3, 4))),
        ("ab,bc,cd->da", ((2, 3), (3, 4), (4, 5))),
        ("ab,b,acd->dc", ((2, 3), (3,), (2, 4, 5))),
    ],
)
def test_any_einsum_has_numpys_values(
    equation: str, shapes: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    names = [f"x{at}" for at in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {name: random(s, at) for at, (name, s) in enumerate(zip(names, shapes, strict=True))}
    leading = {shape[0] for shape in shapes}
    batch_size = leading.pop() if len(leading) == 1 else 1
    bound = _bound(saved(tmp_path, model), batch_size)
    found = run_graph(bound, feeds, rounds=False)["y"]
    wanted = np.einsum(equation, *feeds.values())
    assert bound.types["y"].shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_diagonal_is_refused(tmp_path: Path) -> None:
    body = 'g (float[3,3] x) => (float[3] y) { y = Einsum <equation = "ii->i"> (x) }'
    with pytest.raises(UnsupportedError, match=r"Einsum, opset 17. 'ii->i' takes a diagonal"):
        _bound(written(tmp_path, body), batch_size=3)


def test_an_operator_with_a_body_becomes_that_body(tmp_path: Path) -> None:
    body = """
    g (float[2,5,8] q, float[2,6,8] k, float[2,6,8] v) => (float[2,5,8] y) {
        y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)
    }
    """
    path = written(tmp_path, body, opset=23, ir_version=11)
    feeds = {name: random((2, 5 if name == "q" else 6, 8), at) for at, name in enumerate("qkv")}
    graph = _check(path, feeds, batch_size=2)
    assert {"MatMul", "Softmax"} <= {node.op for node in graph.nodes}


def test_a_declared_shape_stands_for_one_that_an_input_decides(tmp_path: Path) -> None:
    declared = "g (float[2,6] x, int64[3] s) => (float[4,1,3] y) { y = Reshape (x, s) }"
    feeds = {"x": random((2, 6)), "s": np.asarray([4, 1, 3])}
    _check(written(tmp_path, declared), feeds)
    open_ = declared.replace("float[4,1,3] y", "float[a,1,3] y")
    with pytest.raises(UnsupportedError, match=r"Reshape, opset 17.*declare the shape"):
        _bound(written(tmp_path, open_))


def test_a_declared_extent_of_0_says_nothing(tmp_path: Path) -> None:
    body = "g (float[2,6] x, int64[2] s) => (float[0,6] y) { y = Reshape (x, s) }"
    with pytest.raises(UnsupportedError, match=r"Reshape, opset 17.*declare the shape"):
        _bound(written(tmp_path, body))


def test_a_declared_shape_reaches_back_through_single_elements(tmp_path: Path) -> None:
    body = """
    g (float[2,6] x, int64[1] axes) => (float[2,1] y) {
        square = Mul (x, x)
        sum = ReduceSum (square, axes)
        y = Sqrt (sum)
    }
    """
    _check(written(tmp_path, body), {"x": random((2, 6)), "axes": np.asarray([1])})


def test_a_tensor_without_elements_is_a_constant(tmp_path: Path) -> None:
    body = """
    g (float[2,3] x, float[0,3] nothing) => (float[2,3] y) {
        both = Concat <axis = 0> (x, nothing)
        y = Relu (both)
    }
    """
    path = written(tmp_path, body)
    graph = bind(load_model(path), batch_size=1, input_shapes=(("nothing", (0, 3)),))
    feeds = {"x": random((2, 3)), "nothing": np.zeros((0, 3), np.float32)}
    np.testing.assert_array_equal(run_graph(graph, feeds)["y"] > 0, feeds["x"] > 0)
    with pytest.raises(SymbolError, match="neither extent nor name"):
        bind(load_model(path), batch_size=1)


def test_an_old_opset_is_taken_where_its_operators_mean_the_same(tmp_path: Path) -> None:
    body = "g (bool[3,4] x) => (bool[3,4] y) { y = Not (x) }"
    graph = _bound(written(tmp_path, body, opset=1), batch_size=3)
    assert [node.op for node in graph.nodes] == ["Not"]


def test_bits_of_floats_are_refused(tmp_path: Path) -> None:
    body = "g (float[3] x) => (int32[3] y) { y = BitCast <to = 6> (x) }"
    with pytest.raises(UnsupportedError, match=r"BitCast, opset 26. takes the bits of floats"):
        _bound(written(tmp_path, body, opset=26, ir_version=13), batch_size=3)


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_results_of_unknown_number_are_refused_as_such(op: str, tmp_path: Path) -> None:
    body = f"g (float[3] x) => (y) {{ y = {op} (x) }}"
    with pytest.raises(UnsupportedError, match=f"{op}, opset 17.*depends on its values"):
        _bound(written(tmp_path, body), batch_size=3)


def _packed(data_type: int, values: Array) -> ModelProto:
    tensor = helper.make_tensor("w", data_type, values.shape, values.reshape(-1).tolist())
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    values_of = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [values_of("x", TensorProto.FLOAT, values.shape)],
        [values_of("y", TensorProto.FLOAT, values.shape)],
        [raw],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


@pytest.mark.parametrize("elements", [1, 7, 8, 5001])
@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize(
    ("data_type", "least", "most"),
    [(TensorProto.INT4, -8, 7), (TensorProto.UINT4, 0, 15), (TensorProto.UINT2, 0, 3)],
)
def test_weights_that_share_bytes_are_read(
    data_type: int, least: int, most: int, is_external: bool, elements: int, tmp_path: Path
) -> None:
    values = np.random.default_rng(0).integers(least, most + 1, (1, elements))
    model = _packed(data_type, values)
    if is_external:
        convert_model_to_external_data(model, location="w.bin", size_threshold=0)
        (tmp_path / "w.bin").write_bytes(model.graph.initializer[0].raw_data)
        _point_at(model, "w.bin")
    graph = _bound(saved(tmp_path, model))
    found = value_of(graph.constants["f"])
    np.testing.assert_array_equal(found, values)


def _point_at(model: ModelProto, location: str) -> None:
    tensor = model.graph.initializer[0]
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    tensor.data_location = TensorProto.EXTERNAL
