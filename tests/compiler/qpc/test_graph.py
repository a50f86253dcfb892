from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from compiler import qpc
from compiler.driver import OnnxCompiler
from compiler.errors import ModelFileError, QpcError
from compiler.execute.run import execute
from compiler.frontend import bind, load_model
from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Graph, Node, TensorType, value_of
from compiler.options import CompileOptions
from compiler.program import Program
from compiler.qpc import payload
from compiler.qpc.container import open_container
from compiler.target import Sku, device
from tests.compiler.passes.sketch import Sketch
from tests.compiler.qpc.samples import (
    JSON,
    assert_same_graph,
    assert_same_value,
    constant_values,
    forge,
    full_programs,
)
from tests.conformance.random_graphs import graphs
from tests.oracles.programs import ProgramBuilder

Array = NDArray[Any]
FRONTEND_DATA = Path(__file__).parents[1] / "frontend" / "data"
WITH_FOLDER = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def a_program() -> Program:
    builder = ProgramBuilder()
    builder.read(1)
    return builder.build()


def graph_of(constants: dict[str, Array], *nodes: Node) -> Graph:
    types = {
        name: TensorType(DType(array.dtype.name), array.shape) for name, array in constants.items()
    }
    made = {name: Constant(types[name], lambda a=array: a) for name, array in constants.items()}  # type: ignore[misc]
    return Graph("g", (), (), nodes, types, made, 1)


def written(graph: Graph, folder: Path) -> Graph:
    qpc.write(a_program(), folder, graph)
    return qpc.read_graph(folder)


@given(full_programs(), graphs())
@WITH_FOLDER
def test_a_graph_comes_back_beside_its_program(
    tmp_path: Path, program: Program, graph: Graph
) -> None:
    path = qpc.write(program, tmp_path / "a", graph)
    found = qpc.read_graph(path)
    assert_same_graph(found, graph)
    again = qpc.write(qpc.read(path), tmp_path / "b", found)
    assert again.read_bytes() == path.read_bytes()


FLOATS = arrays.array_shapes(min_dims=1, max_dims=3, max_side=9)


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]),
        FLOATS,
        elements=st.floats(width=16, allow_nan=False)
        | st.sampled_from([1e-9, 7e4, -1e30, np.inf]),
    ),
    st.booleans(),
)
@WITH_FOLDER
def test_floats_are_rounded_to_fp16_but_for_the_tiny(
    tmp_path: Path, array: Array, transposed: bool
) -> None:
    array = array.T if transposed else array
    found = value_of(written(graph_of({"w": array}), tmp_path).constants["w"])
    clipped = np.clip(array, -65504, 65504).astype(np.float16).astype(array.dtype)
    expected = array if array.size <= 16 else np.where(np.isinf(array), array, clipped)
    assert found.dtype == array.dtype
    assert found.tolist() == expected.tolist()


INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("dtype", [*INTEGERS, np.bool_])
def test_integers_keep_their_values(tmp_path: Path, dtype: type[Any]) -> None:
    for seed, high in ((0, 2), (1, 2**7), (2, 2**31), (3, 2**63)):
        low, high = (0, 2) if dtype is np.bool_ else (0, min(high, int(np.iinfo(dtype).max)))
        values = np.random.default_rng(seed).integers(low, high, (7, 5), dtype=np.int64)
        array = values.astype(dtype)
        found = value_of(written(graph_of({"w": array}), tmp_path).constants["w"])
        assert_same_value(found, array)


def constants_bytes(folder: Path) -> int:
    return open_container(folder / qpc.FILE_NAME).entries["constants.bin"].size


def test_constants_are_stored_once_in_the_width_of_the_device(tmp_path: Path) -> None:
    plain: dict[str, tuple[Array, int]] = {
        "float": (np.ones(1000, np.float32), 2000),
        "double": (np.ones(1000, np.float64), 2000),
        "byte": (np.ones(1000, np.int8), 1000),
        "index": (np.ones(1000, np.int64), 4000),
        "wide": (np.full(1000, 2**40), 8000),
        "flag": (np.ones(1000, np.bool_), 1000),
    }
    for array, size in plain.values():
        written(graph_of({"w": array}), tmp_path)
        assert constants_bytes(tmp_path) == size
    constant = Constant(TensorType(DType.FLOAT32, (1000,)), lambda: np.ones(1000, np.float32))
    shared = Graph(
        "g",
        (),
        (),
        (),
        {"a": constant.type, "b": constant.type},
        {"a": constant, "b": constant},
        1,
    )
    found = written(shared, tmp_path)
    assert constants_bytes(tmp_path) == 2000
    assert found.constants["a"] is found.constants["b"]


@pytest.mark.parametrize("op", ["DequantizeLinear", "QuantizeLinear", "MatMul"])
def test_scales_of_quantised_operators_stay_exact(tmp_path: Path, op: str) -> None:
    scales = np.linspace(1e-9, 0.3, 40, dtype=np.float32)
    weights = np.ones((40, 40), np.int8 if op == "MatMul" else np.float32)
    node = Node("q", op, "", 17, ("w", "s", ""), ("y",))
    found = written(graph_of({"w": weights, "s": scales}, node), tmp_path)
    assert_same_value(value_of(found.constants["s"]), scales)


def test_texts_bfloat16_and_attributes_of_every_kind_come_back(tmp_path: Path) -> None:
    import ml_dtypes

    sketch = Sketch()
    x = sketch.input(2, 2)
    out = sketch.node(
        "Custom",
        x,
        "",
        domain="aic",
        shape=(2, 2),
        attributes={
            "whole": -(2**62),
            "part": 0.1,
            "wild": float("inf"),
            "text": "\ud800 ü \0",
            "wholes": (1, 2),
            "parts": (0.5, 1e-300),
            "texts": ("a", ""),
            "none": (),
            "array": np.arange(6, dtype=np.int16).reshape(2, 3).T,
            "half": np.array([[1.5]], np.float16),
            "words": np.array([["a", "bc"]], dtype=object),
        },
    )
    words = np.array(["x"] * 40, dtype=object)
    brain = np.arange(40, dtype=np.float32).astype(ml_dtypes.bfloat16)
    for name, values, dtype in (("t", words, DType.STRING), ("b", brain, DType.BFLOAT16)):
        sketch.types[name] = TensorType(dtype, (40,))
        sketch.constants[name] = Constant(sketch.types[name], lambda v=values: v)  # type: ignore[misc]
    graph = sketch.graph(out)
    found = written(graph, tmp_path)
    assert_same_graph(found, graph)
    loaded = constant_values(found)
    assert loaded["t"].tolist() == words.tolist()
    assert_same_value(loaded["b"], brain)


def test_without_a_graph_there_are_no_constants(tmp_path: Path) -> None:
    container = open_container(qpc.write(a_program(), tmp_path))
    assert list(container.entries) == [
        "network.elf",
        "networkdesc.bin",
        "constantsdesc.bin",
        "aic_configurator_program",
    ]
    assert container.segment("constantsdesc.bin") == bytes(24)
    with pytest.raises(QpcError, match="can be simulated but not executed"):
        qpc.read_graph(tmp_path)


def test_the_descriptor_states_the_constants(tmp_path: Path) -> None:
    written(graph_of({"w": np.ones(99, np.float32)}), tmp_path)
    container = open_container(tmp_path / qpc.FILE_NAME)
    assert container.segment("constantsdesc.bin") == (198).to_bytes(8, "little") + bytes(16)
    assert container.entries["constants.bin"].static_bytes == 198


WEIGHTS, WEIGHT_BYTES = 20, 1 << 24


def test_weights_are_streamed_one_by_one(tmp_path: Path) -> None:
    """320 MiB of weights in a few of them: one constant, and pieces of it."""
    type_ = TensorType(DType.FLOAT32, (WEIGHT_BYTES // 4,))

    def load(seed: int) -> Callable[[], Array]:
        return lambda: np.full(type_.shape, seed, np.float32)

    constants = {f"w{seed}": Constant(type_, load(seed)) for seed in range(WEIGHTS)}
    graph = Graph("g", (), (), (), dict.fromkeys(constants, type_), constants, 1)
    program = a_program()
    tracemalloc.start()
    qpc.write(program, tmp_path, graph)
    _, peak = tracemalloc.get_traced_memory()
    assert constants_bytes(tmp_path) == WEIGHTS * WEIGHT_BYTES // 2
    assert peak < 2 * WEIGHT_BYTES
    tracemalloc.reset_peak()
    found = qpc.read_graph(tmp_path)
    assert qpc.read(tmp_path).model_name == program.model_name
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < WEIGHT_BYTES // 4, "reading the program reads no weights"
    assert value_of(found.constants["w7"])[[0, -1]].tolist() == [7, 7]


class Span:
    """Values that are never whole."""

    def __call__(self) -> Array:
        raise AssertionError("all values are asked for")

    def pieces(self, elements: int) -> Iterator[Array]:
        for start in range(0, 3 * 2**20, elements):
            yield np.arange(start, min(start + elements, 3 * 2**20), dtype=np.int64)


def test_what_can_come_in_pieces_is_never_whole(tmp_path: Path) -> None:
    type_ = TensorType(DType.INT64, (3, 2**20))
    graph = Graph("g", (), (), (), {"w": type_}, {"w": Constant(type_, Span())}, 1)
    found = value_of(written(graph, tmp_path).constants["w"])
    assert np.array_equal(found.reshape(-1), np.arange(3 * 2**20))


def test_weights_beside_a_model_go_into_its_container(tmp_path: Path) -> None:
    model = load_model(FRONTEND_DATA / "external_data.onnx")
    graph = bind(model, batch_size=1, symbols=(), batch_symbol=None)
    values = constant_values(graph)
    found = constant_values(written(graph, tmp_path))
    large = [name for name, value in values.items() if value.size > 16 and value.dtype.kind == "f"]
    assert large
    for name, value in values.items():
        rounded = value.astype(np.float16).astype(value.dtype) if name in large else value
        assert_same_value(found[name], rounded)


@pytest.mark.parametrize("name", ["plain_cnn", "fp16_range", "conv_kinds", "einsum"])
def test_what_is_read_back_is_executed_to_the_same_values(tmp_path: Path, name: str) -> None:
    compiler = OnnxCompiler()
    model, options = FRONTEND_DATA / f"{name}.onnx", CompileOptions(num_cores=2)
    program = compiler.compile(model, options, device(Sku.STD))
    graph = compiler.graph(model, options)
    rng = np.random.default_rng(0)
    inputs = {
        one.name: rng.integers(0, 2, one.shape).astype(one.dtype.value)
        if not one.dtype.is_float
        else rng.standard_normal(one.shape).astype(one.dtype.value)
        for one in program.inputs
    }
    expected = execute(program, graph, inputs)
    qpc.write(program, tmp_path, graph)
    found = execute(qpc.read(tmp_path), qpc.read_graph(tmp_path), inputs)
    assert list(found) == list(expected)
    for output, values in expected.items():
        assert_same_value(found[output], values)


def test_a_file_that_cannot_be_finished_leaves_what_was_there(tmp_path: Path) -> None:
    path = qpc.write(a_program(), tmp_path)
    before = path.read_bytes()
    type_ = TensorType(DType.FLOAT32, (99,))

    def gone() -> Array:
        raise ModelFileError("weights are gone")

    graph = Graph("g", (), (), (), {"w": type_}, {"w": Constant(type_, gone)}, 1)
    with pytest.raises(ModelFileError):
        qpc.write(a_program(), tmp_path, graph)
    assert [file.name for file in tmp_path.iterdir()] == [qpc.FILE_NAME]
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sketch = Sketch()
    x = sketch.input(2, 30)
    sketch.node("Add", x, sketch.random(2, 30), ints=(1, 2), array=np.ones(3, np.int64))
    return qpc.write(a_program(), tmp_path_factory.mktemp("good"), sketch.graph("add0"))


@given(st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_refused_or_gives_the_same(
    sample: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(sample.read_bytes())
    graph = qpc.read_graph(sample)
    for _ in range(data.draw(st.integers(0, 2))):
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
    end = data.draw(st.sampled_from([len(content)] * 3) | st.integers(0, len(content)))
    bad = tmp_path / "bad.bin"
    bad.write_bytes(content[:end])
    try:
        found = qpc.read_graph(bad)
        values = constant_values(found)
    except QpcError:
        return
    assert_same_graph(found, graph)
    for name, value in constant_values(graph).items():
        assert_same_value(values[name], value)


def test_a_damaged_weight_is_noticed_when_it_is_loaded(sample: Path, tmp_path: Path) -> None:
    weights = open_container(sample).entries["constants.bin"]
    content = bytearray(sample.read_bytes())
    for at in (weights.start, weights.start + weights.size - 1):
        content[at] ^= 1
        bad = tmp_path / f"{at}.bin"
        bad.write_bytes(content)
        content[at] ^= 1
        (constant,) = qpc.read_graph(bad).constants.values()
        with pytest.raises(QpcError, match=r"constants\.bin are damaged"):
            constant.load()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (0, "str", "120 bytes hold a constant"),
        (1, -128, "lies at -128, outside"),
        (1, 1, "lies at 1, outside"),
        (2, 2**50, "1125899906842624 bytes hold a constant of shape"),
    ],
)
def test_a_place_that_contradicts_the_file_is_told(
    sample: Path, tmp_path: Path, field: int, value: Any, said: str
) -> None:
    segments = qpc.unpack(sample.read_bytes())
    head, _ = payload.unseal(segments["aic_configurator_graph"], "graph")
    (place,) = head["constants"].values()
    place[field] = value
    segments["aic_configurator_graph"] = payload.seal(head)
    bad = tmp_path / "bad.bin"
    bad.write_bytes(qpc.pack(segments))
    with pytest.raises(QpcError, match=said):
        qpc.read_graph(bad)


@given(JSON, st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_forged_graph_is_refused_or_read(
    sample: Path, tmp_path: Path, value: Any, data: st.DataObject
) -> None:
    segments = qpc.unpack(sample.read_bytes())
    head, _ = payload.unseal(segments["aic_configurator_graph"], "graph")
    forge(head, value, data)
    segments["aic_configurator_graph"] = payload.seal(head)
    bad = tmp_path / "bad.bin"
    bad.write_bytes(qpc.pack(segments))
    try:
        constant_values(qpc.read_graph(bad))
    except QpcError:
        return
