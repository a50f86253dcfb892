from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, load

from compiler.errors import ModelError
from compiler.frontend import bind, load_model
from tests.compiler.frontend.files import DATA, STUDIES, saved, written


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)))
def test_nodes_in_any_order_are_sorted(order: list[int], tmp_path: Path) -> None:
    nodes = [
        helper.make_node(op, inputs, [f"v{at}"], name=f"n{at}")
        for at, (op, inputs) in enumerate(
            [
                ("Relu", ["x"]),
                ("Neg", ["v0"]),
                ("Add", ["v0", "v1"]),
                ("Mul", ["v2", "v1"]),
                ("Sub", ["v3", "x"]),
                ("Add", ["v4", "v2"]),
            ]
        )
    ]
    graph = helper.make_graph(
        [nodes[at] for at in order],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("v5", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    bound = bind(load_model(saved(tmp_path, model)), batch_size=2)
    seen = set(bound.inputs)
    for node in bound.nodes:
        assert seen.issuperset(node.inputs)
        seen.update(node.outputs)
    assert sorted(node.name for node in bound.nodes) == [f"n{at}" for at in range(6)]


def test_nodes_that_are_in_order_keep_it() -> None:
    path = STUDIES / "resnet50.onnx"
    model = load_model(path)
    kept = [node.name for node in bind(model, batch_size=1).nodes]
    in_file = [node.name for node in load(path).graph.node if node.name in set(kept)]
    assert kept == in_file
    assert model.notes == ()


def test_sorting_is_noted() -> None:
    (note,) = load_model(DATA / "unsorted.onnx").notes
    assert "unsorted.onnx" in note


def test_nodes_without_a_name_or_with_the_same_get_one_each(tmp_path: Path) -> None:
    body = "g (float[n] x) => (float[n] y) { [k] a = Relu (x) [k] b = Neg (a) y = Neg (b) }"
    names = [node.name for node in bind(load_model(written(tmp_path, body)), batch_size=1).nodes]
    assert names[0] == "k"
    assert len(set(names)) == 3
    assert all(names)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("g (float[n] x) => (float[n] y) { y = Add (x, z) }", "reads 'z', which nothing defines"),
        ("g (float[n] x) => (float[n] q) { y = Relu (x) }", "output 'q' is defined by no node"),
        ("g (float[n] x) => (float[n] x) { x = Relu (x) }", "'x' is defined 2 times"),
        (
            "g (float[n] x) => (float[n] w) <float[1] w = {1.0}> { w = Relu (x) }",
            "'w' is defined 2 times .*an initializer",
        ),
        (
            "g (float[n] x) => (float[n] d) { [a] b = Add (x, d) [c] d = Neg (b) }",
            "cycle through nodes 'a', 'c'",
        ),
        ("g (float[n] x) => (float[n] y) { [s] y = Add (x, y) }", "cycle through nodes 's'"),
        (
            "g (float[n] x) => (float[n] y) { [r] y = Relu (x, x) }",
            "'r' .*has 2 inputs and 1 outputs, the operator takes 1 and 1",
        ),
    ],
)
def test_names_that_contradict_each_other_are_refused(
    body: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=says):
        bind(load_model(written(tmp_path, body)), batch_size=1)


def test_what_no_output_needs_may_be_unsupported(tmp_path: Path) -> None:
    body = "g (float[n,4] x) => (float[n,4] y) { dead = NonZero (x) y = Relu (x) }"
    graph = bind(load_model(written(tmp_path, body)), batch_size=1)
    assert [node.op for node in graph.nodes] == ["Relu"]
