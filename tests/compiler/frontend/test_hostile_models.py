"""Models made to break the importer: refused in one line, at once, in little memory."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from compiler.errors import CompileError, ModelError, ModelFileError, UnsupportedError
from compiler.frontend import bind, load_model
from tests.compiler.frontend.files import model_of, run, saved, written


def _conv(attributes: str, channels: int = 4) -> ModelProto:
    proto = model_of(
        f"g (float[1,{channels},8,8] x) => (float[n,c,h,w] y) "
        f"{{ k = Constant <value = float[1] {{1}}> () y = Conv <{attributes}> (x, w) }}"
    )
    del proto.graph.node[0]
    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 2, 3, 3), [1.0] * 72)
    proto.graph.initializer.append(weights)
    return proto


@pytest.mark.parametrize(
    ("attributes", "channels", "numbers"),
    [
        ("group = 0", 4, ("0 groups", "4 channels")),
        ("group = -1", 4, ("-1 groups",)),
        ("group = 3", 4, ("3 groups", "4 channels")),
        ("group = 1", 4, ("4 channels", "take 2")),
        ("group = 2", 6, ("6 channels", "take 4")),
        ("group = 2, kernel_shape = [5, 5]", 4, ("[5, 5]", "[3, 3]")),
    ],
)
def test_convolutions_whose_data_and_weights_disagree(
    attributes: str, channels: int, numbers: tuple[str, ...], tmp_path: Path
) -> None:
    path = saved(tmp_path, _conv(attributes, channels))
    with pytest.raises(ModelError) as caught:
        bind(load_model(path), batch_size=1)
    for number in numbers:
        assert number in str(caught.value)


def test_a_grouped_convolution_that_agrees_is_bound(tmp_path: Path) -> None:
    graph = bind(load_model(saved(tmp_path, _conv("group = 2"))), batch_size=1)
    assert graph.types["y"].shape == (1, 4, 6, 6)


def _calls_twice(levels: int) -> ModelProto:
    """Functions of which each calls the one below twice: 2^levels nodes when all are expanded."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    relu = helper.make_node("Relu", ["a"], ["b"])
    functions = [helper.make_function("f", "f0", ["a"], ["b"], [relu], opsets)]
    for at in range(1, levels + 1):
        halves = [
            helper.make_node(f"f{at - 1}", ["a"], ["t"], domain="f"),
            helper.make_node(f"f{at - 1}", ["t"], ["b"], domain="f"),
        ]
        functions.append(helper.make_function("f", f"f{at}", ["a"], ["b"], halves, opsets))
    proto = model_of("g (float[1] x) => (float[1] y) { y = Relu (x) }")
    proto.opset_import.append(opsets[1])
    proto.graph.node[0].op_type, proto.graph.node[0].domain = f"f{levels}", "f"
    proto.functions.extend(functions)
    return proto


def test_functions_that_would_fill_memory_are_counted_before_they_are_expanded(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path, _calls_twice(40))
    with pytest.raises(UnsupportedError, match=f"{2**40} nodes, the limit is 100000"):
        load_model(path)


def test_few_nested_functions_are_expanded(tmp_path: Path) -> None:
    graph = bind(load_model(saved(tmp_path, _calls_twice(4))), batch_size=1)
    assert sum(node.op == "Relu" for node in graph.nodes) == 16


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    proto = _calls_twice(1)
    proto.functions[0].node[0].op_type, proto.functions[0].node[0].domain = "f1", "f"
    with pytest.raises(ModelError, match="or themselves"):
        load_model(saved(tmp_path, proto))


@pytest.mark.parametrize("limit", ["nan", "inf"])
def test_a_range_without_an_end(limit: str, tmp_path: Path) -> None:
    proto = model_of(
        "g (float[1] x) => (float[1] y) <float a = {0}, float c = {1}> "
        "{ r = Range (a, b, c) m = ReduceMax <keepdims = 0> (r) y = Mul (x, m) }"
    )
    proto.graph.initializer.append(helper.make_tensor("b", TensorProto.FLOAT, (), [float(limit)]))
    with pytest.raises(ModelError, match="Range"):
        bind(load_model(saved(tmp_path, proto)), batch_size=1)


def test_a_sum_over_constants_of_gigabytes_is_refused_before_they_are_made(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        "g (float[1] x) => (float[1] y) <int64[2] s = {65536, 32768}> "
        "{ k = ConstantOfShape (s) r = ReduceSum <keepdims = 0> (k) y = Mul (x, r) }",
    )
    graph = bind(load_model(path), batch_size=1)
    (constant,) = graph.constants.values()
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match=f"{2**31} elements, at most {2**29}"):
            constant.load()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_chain_of_large_constants_holds_few_of_them_at_a_time(tmp_path: Path) -> None:
    links = " ".join(f"k{at + 1} = Add (k{at}, k{at})" for at in range(20))
    path = written(
        tmp_path,
        "g (float[1] x) => (float[1000000] y) <int64[1] s = {1000000}> "
        f"{{ k0 = ConstantOfShape (s) {links} y = Add (x, k20) }}",
    )
    (constant,) = bind(load_model(path), batch_size=1).constants.values()
    tracemalloc.start()
    try:
        constant.load()
        assert tracemalloc.get_traced_memory()[1] < 5 * 4_000_000
    finally:
        tracemalloc.stop()


def test_an_output_of_another_type_than_it_is_declared(tmp_path: Path) -> None:
    path = written(tmp_path, "g (float[1] x) => (int64[1] y) { y = Relu (x) }")
    with pytest.raises(ModelError, match="'y' is declared as int64, its node makes float32"):
        bind(load_model(path), batch_size=1)


def test_a_scan_of_more_inputs_than_it_has(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "g (float[4,2] x) => (float[4,2] y) { y = Scan <num_scan_inputs = 9, "
        "body = b (float[2] i) => (float[2] o) { o = Relu (i) }> (x) }",
    )
    with pytest.raises(ModelError, match="scans 9 of its 1 inputs"):
        bind(load_model(path), batch_size=4)


def test_results_that_nothing_reads_may_be_demanded_by_the_operator(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "g (float[2,8] x) => (float[2,3] y) <int64[1] k = {3}> { y, unread = TopK (x, k) }",
    )
    graph = bind(load_model(path), batch_size=2)
    x = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    assert run(path, {"x": x})["y"].shape == graph.types["y"].shape


def test_a_constant_of_more_dims_than_arrays_have(tmp_path: Path) -> None:
    proto = model_of("g (float[1] x) => (float[1] y) { y = Add (x, w) }")
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1] * 65, [1.0]))
    with pytest.raises(UnsupportedError, match="65 dims, supported are up to 64"):
        load_model(saved(tmp_path, proto))


@pytest.mark.parametrize("key", ["offset", "length"])
def test_numbers_of_too_many_digits(key: str, tmp_path: Path) -> None:
    proto = model_of("g (float[4] x) => (float[4] y) { y = Add (x, w) }")
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for name, value in (("location", "w.bin"), (key, "9" * 5000)):
        tensor.external_data.add(key=name, value=value)
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(ModelFileError, match="no number of bytes"):
        load_model(saved(tmp_path, proto))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ModelFileError, match="not a regular file"):
        load_model(tmp_path / "pipe.onnx")


_SEED = _conv("group = 2, strides = [1, 2]").SerializeToString()


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(_SEED) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_damaged_bytes_are_refused_or_bound(
    changes: list[tuple[int, int]], tmp_path: Path
) -> None:
    content = bytearray(_SEED)
    for at, byte in changes:
        content[at] = byte
    path = tmp_path / "damaged.onnx"
    path.write_bytes(bytes(content))
    # A refusal may hold a name with a line end, which the command line shows as a space.
    with contextlib.suppress(CompileError):
        bind(load_model(path), batch_size=1)
