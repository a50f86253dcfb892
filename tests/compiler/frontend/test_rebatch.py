from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import UnsupportedError
from compiler.frontend import bind, load_model
from compiler.ir.graph import Graph
from tests.compiler.frontend.files import DATA, Array, random, run, written
from tests.oracles import graph_to_onnx


@dataclass(frozen=True, slots=True)
class Fixed:
    """A model whose inputs all hold `batch` samples."""

    name: str
    body: str
    batch: int = 1
    opset: int = 17


_ATTENTION = """
g (float[1,6,8] x) => (float[1,6,8] y)
    <int64[4] heads = {1, 6, 2, 4}, int64[3] merged = {%s}, int64[3] split = {%s},
     int64[3] back = {1, 6, 8}, float half = {0.5}> {
    h = Reshape (x, heads)
    t = Transpose <perm: ints = [0, 2, 1, 3]> (h)
    q = Reshape (t, merged)
    k = Transpose <perm: ints = [0, 2, 1]> (q)
    s = MatMul (q, k)
    m = Mul (s, half)
    p = Softmax <axis: int = -1> (m)
    o = MatMul (p, q)
    u = Reshape (o, split4)
    w = Transpose <perm: ints = [0, 2, 1, 3]> (u)
    y = Reshape (w, back)
}
""".replace("int64[3] split", "int64[4] split4")

_KEPT = (
    Fixed(
        "a Reshape that names the batch",
        "g (float[1,2,3] x) => (float[1,4] y) <int64[2] s = {1, 6}, float[4] b = {1,2,3,4}, "
        "float[6,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24}> "
        "{ f = Reshape (x, s) m = MatMul (f, w) y = Add (m, b) }",
    ),
    Fixed("heads merged into the batch", _ATTENTION % ("2, 6, 4", "1, 2, 6, 4")),
    Fixed(
        "a class token beside the samples",
        "g (float[1,2,3] x) => (float[1,3,3] y) <float[1,1,3] token = {7, 8, 9}> "
        "{ y = Concat <axis: int = 1> (token, x) }",
    ),
    Fixed(
        "the batch moved to another axis and back",
        "g (float[1,2,3] x) => (float[1,2,3] y) "
        "{ t = Transpose <perm: ints = [1, 2, 0]> (x) r = Relu (t) "
        "e = Softmax <axis: int = 1> (r) y = Transpose <perm: ints = [2, 0, 1]> (e) }",
    ),
    Fixed(
        "a batch of two, a pad, a slice and a split",
        "g (float[2,4,6] x) => (float[2,2,3] y) <int64[6] pads = {0, 1, 0, 0, 0, 0}, "
        "int64[1] starts = {1}, int64[1] ends = {9}, int64[1] axes = {1}, int64[1] steps = {2}> "
        "{ p = Pad (x, pads) s = Slice (p, starts, ends, axes, steps) "
        "y, rest = Split <axis: int = 2> (s) }",
        batch=2,
    ),
    Fixed(
        "images: convolution, pooling, resizing by sizes",
        "g (float[1,1,4,4] x) => (float[1,1] y) <float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}, "
        "int64[4] sizes = {1, 1, 6, 6}> { c = Conv <pads: ints = [1,1,1,1]> (x, w) "
        'r = Resize <mode: string = "nearest"> (c, , , sizes) p = MaxPool <kernel_shape: ints = '
        "[2, 2]> (r) a = GlobalAveragePool (p) y = Flatten (a) }",
    ),
    Fixed(
        "an embedding of indices",
        "g (int64[1,3] x) => (float[1,3,2] y) <float[5,2] table = {0,1,2,3,4,5,6,7,8,9}> "
        "{ e = Gather (table, x) y = Neg (e) }",
    ),
    Fixed(
        "axes added, reduced and removed",
        "g (float[1,2,3] x) => (float[1,3] y) <int64[1] first = {0}, int64[1] second = {2}> "
        "{ u = Unsqueeze (x, first) r = ReduceMean <axes: ints = [2], keepdims: int = 1> (u) "
        "t = Squeeze (r, second) y = Squeeze (t, first) }",
    ),
    Fixed(
        "an Einsum",
        "g (float[1,2,3] x, float[1,4,3] z) => (float[1,2,4] y) "
        '{ y = Einsum <equation: string = "bij,bkj->bik"> (x, z) }',
    ),
    Fixed(
        "an Expand that names the batch",
        "g (float[1,1,3] x) => (float[1,4,3] y) <int64[3] s = {1, 4, 3}> { y = Expand (x, s) }",
    ),
)

_MIXED = (
    Fixed(
        "a Reshape that puts samples side by side",
        "g (float[1,2,3] x) => (float[1,2,3] y) <int64[2] s = {2, -1}, int64[3] back = {1, 2, -1}>"
        " { a = Transpose <perm: ints = [1, 0, 2]> (x) b = Reshape (a, s) "
        "c = Softmax <axis: int = 1> (b) y = Reshape (c, back) }",
    ),
    Fixed(
        "a mean over the batch",
        "g (float[1,3] x) => (float[1,3] y) "
        "{ m = ReduceMean <axes: ints = [0]> (x) y = Sub (x, m) }",
    ),
    Fixed("a Softmax over the batch", "g (float[1] x) => (float[1] y) { y = Softmax (x) }"),
    Fixed(
        "an old Softmax over all axes",
        "g (float[1,3] x) => (float[1,3] y) { y = Softmax <axis: int = 0> (x) }",
        opset=11,
    ),
    Fixed(
        "an old Softmax over all axes from the channels on",
        "g (float[1,2,3] x) => (float[1,2,3] y) { t = Transpose <perm: ints = [1, 2, 0]> (x) "
        "s = Softmax <axis: int = 1> (t) y = Transpose <perm: ints = [2, 0, 1]> (s) }",
        opset=11,
    ),
    Fixed(
        "weights for each sample of the batch",
        "g (float[2,3] x) => (float[2,3] y) <float[2,1] w = {1, 2}> { y = Mul (x, w) }",
        batch=2,
    ),
    Fixed(
        "the first sample for all",
        "g (float[2,3] x) => (float[2,3] y) <int64 zero = {0}> "
        "{ f = Gather (x, zero) y = Add (x, f) }",
        batch=2,
    ),
    Fixed(
        "the last sample only",
        "g (float[1,3] x) => (float[1,3] y) <int64[1] b = {-1}, int64[1] e = {9}> "
        "{ y = Slice (x, b, e) }",
    ),
    Fixed(
        "samples repeated",
        "g (float[1,3] x) => (float[2,3] y) <int64[2] r = {2, 1}> { y = Tile (x, r) }",
    ),
    Fixed(
        "a sum over samples along the batch",
        "g (float[1,3] x) => (float[1,3] y) <int64 a = {0}> { y = CumSum (x, a) }",
    ),
    Fixed(
        "an output without a batch",
        "g (float[1,3] x) => (float[3] y) <int64[1] a = {0}> { y = Squeeze (x, a) }",
    ),
    Fixed(
        "an output that holds the batch along another axis",
        "g (float[1,3] x) => (float[3,1] y) { y = Transpose (x) }",
    ),
    Fixed(
        "samples multiplied with each other",
        "g (float[2,3] x) => (float[2,2] y) { t = Transpose (x) y = MatMul (x, t) }",
        batch=2,
    ),
    Fixed(
        "a product over the batch that every sample uses",
        "g (float[2,3] x) => (float[2,3] y) "
        "{ t = Transpose (x) c = MatMul (t, x) y = MatMul (x, c) }",
        batch=2,
    ),
    Fixed(
        "samples added up by a product",
        "g (float[3,2] x) => (float[3,2] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}> "
        "{ y = MatMul (w, x) }",
        batch=3,
    ),
)


def _feeds(graph: Graph) -> dict[str, Array]:
    return {
        name: random(graph.types[name].shape, seed)
        if graph.types[name].dtype.is_float
        else np.arange(graph.types[name].elements).reshape(graph.types[name].shape) % 5
        for seed, name in enumerate(graph.inputs)
    }


def _in_turns(path: Path, feeds: dict[str, Array], batch: int) -> dict[str, Array]:
    """What onnxruntime gives when the model runs with its own batch over and over."""
    count = len(next(iter(feeds.values()))) // batch
    turns = [
        run(path, {name: v[at * batch : (at + 1) * batch] for name, v in feeds.items()})
        for at in range(count)
    ]
    return {name: np.concatenate([turn[name] for turn in turns]) for name in turns[0]}


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("case", _KEPT, ids=lambda case: case.name)
def test_each_sample_of_the_new_batch_has_the_values_it_has_alone(
    case: Fixed, times: int, tmp_path: Path
) -> None:
    path = written(tmp_path, case.body, case.opset)
    graph = bind(load_model(path), batch_size=case.batch * times)
    feeds = _feeds(graph)
    expected = _in_turns(path, feeds, case.batch)
    for name, result in zip(graph.outputs, graph_to_onnx.run(graph, feeds), strict=True):
        assert graph.types[name].shape == expected[name].shape
        # Sums of at most 24 float32 terms.
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", _MIXED, ids=lambda case: case.name)
def test_a_model_that_might_mix_samples_keeps_its_batch(case: Fixed, tmp_path: Path) -> None:
    model = load_model(written(tmp_path, case.body, case.opset))
    graph = bind(model, batch_size=case.batch)
    assert graph.batch_size == case.batch
    with pytest.raises(UnsupportedError, match=f"fixed batch of {case.batch}, batch size 6"):
        bind(model, batch_size=6)


def test_the_file_made_for_one_sample_runs_four_with_right_values() -> None:
    path = DATA / "fixed_batch_1.onnx"
    graph = bind(load_model(path), batch_size=4)
    feeds = {"x": random((4, 3, 16, 16))}
    (result,) = graph_to_onnx.run(graph, feeds)
    np.testing.assert_allclose(result, _in_turns(path, feeds, 1)["y"], rtol=1e-5, atol=1e-5)


def test_a_batch_can_also_shrink(tmp_path: Path) -> None:
    body = "g (float[8,3] x) => (float[8,3] y) <int64[2] s = {8, 3}> { y = Reshape (x, s) }"
    graph = bind(load_model(written(tmp_path, body)), batch_size=1)
    assert graph.types["y"].shape == (1, 3)


def test_inputs_without_a_dim_in_common_are_one_sample(tmp_path: Path) -> None:
    body = "g (float[3,4] x, float[4,5] w) => (float[3,5] y) { y = MatMul (x, w) }"
    model = load_model(written(tmp_path, body))
    assert bind(model, batch_size=1).types["y"].shape == (3, 5)
    with pytest.raises(UnsupportedError, match=r"no first dim.*\[3, 4\]"):
        bind(model, batch_size=2)
