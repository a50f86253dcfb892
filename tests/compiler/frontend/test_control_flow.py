from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend import bind, load_model
from compiler.ir.graph import Graph
from tests.compiler.frontend.files import DATA, random, run, written
from tests.oracles import graph_to_onnx

# Both branches use values from around them, have names in common, and one nests another.
_NESTED_IF = """
g (float[2,3] x) => (float[2,3] y, float[2,3] z) <bool first = {%d}, float[3] w = {1, 2, 3}> {
    r = Relu (x)
    y, z = If (first) <
        then_branch: graph = then () => (float[2,3] p, float[2,3] p3) {
            p3 = Mul (r, w)
            second = Constant <value: tensor = bool {%d}> ()
            p = If (second) <
                then_branch: graph = then_then () => (float[2,3] t) {
                    t = Add (r, w)
                },
                else_branch: graph = then_else () => (float[2,3] t)
                    <float[3] own = {7, 8, 9}> {
                    t = Mul (r, own)
                }
            >
        },
        else_branch: graph = else () => (float[2,3] p, float[2,3] p2) {
            p = Sub (r, w)
            p2 = Neg (p)
        }
    >
}
"""

_LOOP = """
g (float[2,3] x) => (float[2,3] y, float[5,2,3] all) <int64 trips = {5}, bool go = {1}> {
    y, all = Loop (trips, go, x) <
        body: graph = body (int64 i, bool c, float[2,3] before)
            => (bool c2, float[2,3] after, float[2,3] seen) <float[3] w = {1, 2, 3}> {
            c2 = Identity (c)
            f = Cast <to: int = 1> (i)
            step = Mul (w, f)
            after = Add (before, step)
            seen = Neg (after)
        }
    >
}
"""


def _check(path: Path, graph: Graph) -> None:
    feeds = {"x": random((2, 3))}
    expected = run(path, feeds)
    for name, result in zip(graph.outputs, graph_to_onnx.run(graph, feeds), strict=True):
        assert graph.types[name].shape == expected[name].shape
        np.testing.assert_allclose(result, expected[name], rtol=1e-6)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1])
def test_a_constant_condition_is_resolved(first: int, second: int, tmp_path: Path) -> None:
    path = written(tmp_path, _NESTED_IF % (first, second))
    graph = bind(load_model(path), batch_size=2)
    assert not any(node.op == "If" for node in graph.nodes)
    _check(path, graph)


def test_a_condition_on_a_shape_is_resolved_for_each_binding(tmp_path: Path) -> None:
    body = (
        "g (float[n,3] x) => (float[n,3] y) <int64 zero = {0}, int64 two = {2}> "
        "{ s = Shape (x) n = Gather (s, zero) many = Greater (n, two) y = If (many) "
        "<then_branch: graph = then () => (float[n,3] t) { t = Relu (x) }, "
        "else_branch: graph = other () => (float[n,3] t) { t = Neg (x) }> }"
    )
    model = load_model(written(tmp_path, body))
    assert [node.op for node in bind(model, batch_size=2).nodes] == ["Neg"]
    assert [node.op for node in bind(model, batch_size=3).nodes] == ["Relu"]


@pytest.mark.parametrize("opset", [11, 17])
def test_a_loop_with_results_per_trip_is_unrolled(opset: int, tmp_path: Path) -> None:
    path = written(tmp_path, _LOOP, opset)
    graph = bind(load_model(path), batch_size=2)
    assert [node.op for node in graph.nodes].count("Neg") == 5
    assert graph.types["all"].shape == (5, 2, 3)
    _check(path, graph)


def test_no_trip_at_all_gives_the_first_value(tmp_path: Path) -> None:
    body = _LOOP.replace("trips = {5}", "trips = {0}").replace(", float[5,2,3] all)", ")")
    path = written(tmp_path, body.replace("y, all = Loop", "y = Loop"))
    graph = bind(load_model(path), batch_size=2)
    (result,) = graph_to_onnx.run(graph, {"x": random((2, 3))})
    np.testing.assert_array_equal(result, random((2, 3)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("<int64 trips = {5}, bool go = {1}>", "<bool go = {1}>"), "no constant number of trips"),
        (("c2 = Identity (c)", "c2 = Not (c)"), "no constant number of trips"),
        (("trips = {5}", "trips = {999999}"), "unrolls to 999999 x 5 nodes"),
    ],
)
def test_a_loop_of_unknown_or_great_length_is_refused(
    change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    body = _LOOP.replace("y, all = Loop", "[lp] y, all = Loop").replace(*change)
    if "trips = {" not in body:
        body = body.replace("(float[2,3] x)", "(float[2,3] x, int64 trips)")
    with pytest.raises(UnsupportedError, match=f"'lp' .*Loop, opset 17. .*{says}"):
        bind(load_model(written(tmp_path, body)), batch_size=2)


def test_loops_in_loops_have_a_limit_together(tmp_path: Path) -> None:
    body = """
    g (float[2] x) => (float[2] y) <int64 n = {9999}, bool go = {1}> {
        y = Loop (n, go, x) <
            body: graph = outer (int64 i, bool c, float[2] a) => (bool c2, float[2] b) {
                c2 = Identity (c)
                b = Loop (n, go, a) <
                    body: graph = inner (int64 j, bool d, float[2] e) => (bool d2, float[2] f) {
                        d2 = Identity (d)
                        f = Neg (e)
                    }
                >
            }
        >
    }
    """
    with pytest.raises(UnsupportedError, match="more than 100000 nodes"):
        bind(load_model(written(tmp_path, body)), batch_size=2)


def test_a_branch_with_another_number_of_results_is_malformed(tmp_path: Path) -> None:
    body = (_NESTED_IF % (1, 1)).replace("y, z = If", "y, z, q = If")
    with pytest.raises(ModelError, match="no then_branch with 0 inputs and 3 outputs"):
        load_model(written(tmp_path, body))


def test_local_functions_are_expanded() -> None:
    graph = bind(load_model(DATA / "local_function.onnx"), batch_size=1)
    assert [node.op for node in graph.nodes] == ["Relu", "Neg"]
