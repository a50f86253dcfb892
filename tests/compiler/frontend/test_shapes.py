from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import DoesNotFitError, ModelError, UnsupportedError
from compiler.frontend import bind, load_model
from compiler.ir.graph import value_of
from tests.compiler.frontend.files import STUDIES, run, written

_SYMBOLS = {"seq_len": 19}


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "bert_base_qa"])
def test_every_result_has_the_type_that_onnxruntime_gives_it(name: str, batch_size: int) -> None:
    model = load_model(STUDIES / f"{name}.onnx")
    symbols = tuple((key, _SYMBOLS[key]) for key in model.symbols if key in _SYMBOLS)
    graph = bind(model, batch_size=batch_size, symbols=symbols)
    feeds = {
        key: np.ones(given.shape, dtype=given.dtype.value)
        for key, given in ((key, graph.types[key]) for key in graph.inputs)
    }
    names = tuple(result for node in graph.nodes for result in node.outputs)
    actual = run(model.path, feeds, names)
    assert len(names) > 90
    assert {key: (v.shape, v.dtype.name) for key, v in actual.items()} == {
        key: (graph.types[key].shape, graph.types[key].dtype.value) for key in names
    }


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "bert_base_qa"])
def test_no_shape_arithmetic_and_no_dead_node_is_left(name: str) -> None:
    model = load_model(STUDIES / f"{name}.onnx")
    symbols = tuple((key, _SYMBOLS[key]) for key in model.symbols if key in _SYMBOLS)
    graph = bind(model, batch_size=2, symbols=symbols)
    read = {key for node in graph.nodes for key in node.inputs} | set(graph.outputs)
    assert all(read.intersection(node.outputs) for node in graph.nodes)
    assert not {"Shape", "Constant", "ConstantOfShape"} & {node.op for node in graph.nodes}
    assert set(graph.constants) <= read


def test_binding_again_is_equal_and_independent() -> None:
    model = load_model(STUDIES / "mobilenet_v2.onnx")
    first, other, again = (bind(model, batch_size=size) for size in (2, 5, 2))
    assert dict(first.types) == dict(again.types)
    assert first.nodes == again.nodes
    assert first.types["logits"].shape == (2, 1000)
    assert other.types["logits"].shape == (5, 1000)


def test_weights_are_evaluated_as_the_file_says() -> None:
    graph = bind(load_model(STUDIES / "resnet50.onnx"), batch_size=1)
    largest = max(graph.constants.values(), key=lambda item: item.type.elements)
    values = value_of(largest)
    assert values.shape == largest.type.shape
    # The file fills every weight with one number by a ConstantOfShape node.
    assert np.all(values == np.float32(0.01))


@dataclass(frozen=True, slots=True)
class OneNode:
    name: str
    body: str
    opset: int = 17
    batch_size: int = 1


_ONE_NODE = (
    OneNode(
        "LessOrEqual without inference",
        "g (float[2,1,4] x, float[3,1] y) => (bool[a,b,c] z) { z = LessOrEqual(x, y) }",
        opset=15,
    ),
    OneNode(
        "GroupNormalization without inference",
        "g (float[2,6,4] x, float[3] s, float[3] t) => (float[a,b,c] z) "
        "{ z = GroupNormalization <num_groups: int = 3> (x, s, t) }",
        opset=18,
    ),
    OneNode(
        "MaxPool that rounds up",
        "g (float[1,2,7,9] x) => (float[a,b,c,d] z) { z = MaxPool "
        "<kernel_shape: ints = [3, 2], strides: ints = [2, 2], ceil_mode: int = 1> (x) }",
    ),
    OneNode(
        "Dropout with a dead mask",
        "g (float[3,4] x) => (float[a,b] z) { z, mask = Dropout (x) }",
        opset=7,
        batch_size=3,
    ),
    OneNode(
        "TopK by a constant",
        "g (float[3,8] x) => (float[a,b] v, int64[a,b] z) <int64[1] k = {5}> "
        "{ v, z = TopK <axis: int = 1> (x, k) }",
        batch_size=3,
    ),
    OneNode(
        "Split with a dead part",
        "g (float[3,7] x) => (float[a,b] z) <int64[2] parts = {3, 4}> "
        "{ first, z = Split <axis: int = 1> (x, parts) }",
        batch_size=3,
    ),
    OneNode(
        "Split into equal parts",
        "g (float[3,8] x) => (float[a,b] z) { first, z = Split <axis: int = 1> (x) }",
        batch_size=3,
    ),
    OneNode(
        "Resize by scales",
        "g (float[1,2,5,7] x) => (float[a,b,c,d] z) <float[4] scales = {1.0, 1.0, 1.5, 0.6}> "
        '{ z = Resize <mode: string = "linear"> (x, , scales) }',
    ),
    OneNode(
        "Reshape with zero and minus one",
        "g (float[1,6,4] x) => (float[a,b,c] z) <int64[3] shape = {0, -1, 8}> "
        "{ z = Reshape (x, shape) }",
    ),
)


@pytest.mark.parametrize("case", _ONE_NODE, ids=lambda case: case.name)
def test_one_node_has_the_type_that_onnxruntime_gives_it(case: OneNode, tmp_path: Path) -> None:
    path = written(tmp_path, case.body, case.opset)
    graph = bind(load_model(path), batch_size=case.batch_size)
    feeds = {key: np.ones(graph.types[key].shape, np.float32) for key in graph.inputs}
    actual = run(path, feeds, ("z",))["z"]
    assert graph.types["z"].shape == actual.shape
    assert graph.types["z"].dtype.value == actual.dtype.name


def test_a_shape_that_depends_on_data_is_refused(tmp_path: Path) -> None:
    body = "g (float[n,4] x, int64[2] s) => (float[a,b] z) { [r] z = Reshape (x, s) }"
    with pytest.raises(UnsupportedError, match=r"'r' .*Reshape, opset 17.*depends on the data"):
        bind(load_model(written(tmp_path, body)), batch_size=2)


def test_operands_that_contradict_the_operator_name_the_node(tmp_path: Path) -> None:
    body = (
        "g (float[n,4] x) => (float[a,b] z) <float[5,3] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> "
        "{ [mm] z = MatMul (x, w) }"
    )
    with pytest.raises(ModelError, match=r"'mm' .*2x4, 5x3"):
        bind(load_model(written(tmp_path, body)), batch_size=2)


def test_a_result_that_no_card_holds_is_refused_before_it_is_made(tmp_path: Path) -> None:
    body = (
        "g (float[n,1] x) => (float[a,b] z) <int64[2] s = {1, 4398046511104}> "
        "{ [e] z = Expand (x, s) }"
    )
    with pytest.raises(DoesNotFitError, match=r"'e' .*result 'z' of shape 1x4398046511104"):
        bind(load_model(written(tmp_path, body)), batch_size=1)


@pytest.mark.parametrize("opset", [6, 1000])
def test_opsets_that_are_too_old_or_unknown_are_refused(opset: int, tmp_path: Path) -> None:
    body = "g (float[n,4] x) => (float[n,4] z) { z = Add (x, x) }"
    with pytest.raises(UnsupportedError, match=f"opset {opset}"):
        load_model(written(tmp_path, body, opset))
