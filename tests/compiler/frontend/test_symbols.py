from __future__ import annotations

from pathlib import Path

import pytest

from compiler.errors import OptionError, SymbolError
from compiler.frontend import OnnxModel, batch_symbol_of, bind, load_model
from tests.compiler.frontend.files import DATA, model_of, saved, written

_TWO = "g (float[n,s] a, float[n,s] b) => (float[n,s] y) { y = Add (a, b) }"


def _model(folder: Path, inputs: str) -> OnnxModel:
    return load_model(written(folder, f"g ({inputs}) => (float[r] y) {{ y = Relu (a) }}"))


def test_symbols_are_sorted_and_the_batch_candidates_in_order(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, _TWO))
    assert model.symbols == ("n", "s")
    assert model.batch_symbol_candidates == ("n",)
    assert model.opsets == (("", 17),)


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ("float[n,4] a,float[n,9] b", "n"),
        ("float[n,4] a,float[2,n] b", "n"),
        ("float[2,n] a,float[n] b", "n"),
        ("float[n,4] a,float[m,9] b", None),
        ("float[rows,4] a,float[batch_size,9] b", "batch_size"),
        ("float[batch,4] a,float[batch_2,9] b", None),
        ("float[1,n] a,float[1,n] b", None),
    ],
)
def test_the_batch_symbol_is_found_by_itself(
    inputs: str, found: str | None, tmp_path: Path
) -> None:
    assert batch_symbol_of(_model(tmp_path, inputs)) == found


def test_the_batch_symbol_can_be_named(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, _TWO))
    assert batch_symbol_of(model, "s") == "s"
    graph = bind(model, batch_size=5, batch_symbol="s", symbols=(("n", 3),))
    assert graph.types["y"].shape == (3, 5)
    with pytest.raises(SymbolError, match=r"batch symbol m: .*it has n, s"):
        batch_symbol_of(model, "m")


@pytest.mark.parametrize(
    ("symbols", "says"),
    [
        ((), "symbol 's' .dim 1 of input 'a'. has no value; give --symbol s=INT"),
        ((("s", 3), ("t", 1)), "--symbol t: the model has no such symbol; it has n, s"),
        ((("s", 0),), "--symbol s=0: must be 1 or more"),
        ((("s", 3), ("s", 4)), "--symbol s=4: but s is also given as 3"),
        ((("n", 4), ("s", 3)), "--symbol n=4: this is the batch symbol and the batch size is 2"),
    ],
)
def test_wrong_symbols_are_named(
    symbols: tuple[tuple[str, int], ...], says: str, tmp_path: Path
) -> None:
    model = load_model(written(tmp_path, _TWO))
    with pytest.raises(SymbolError, match=says):
        bind(model, batch_size=2, symbols=symbols)


def test_a_model_without_symbols_says_so() -> None:
    with pytest.raises(SymbolError, match=r"--symbol k: .*it has none"):
        bind(load_model(DATA / "fixed_batch_1.onnx"), batch_size=1, symbols=(("k", 1),))


def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(OptionError, match="batch size is 0"):
        bind(load_model(DATA / "plain_cnn.onnx"), batch_size=0)


@pytest.mark.parametrize("dim", ["", "?", "None"])
def test_a_dim_without_a_name_asks_for_a_shape(dim: str, tmp_path: Path) -> None:
    model = _open_dims(tmp_path, dim)
    with pytest.raises(
        SymbolError, match=r"'x': dim 2 has neither .* --input-shape x=2x3x224x224"
    ):
        bind(model, batch_size=2)


@pytest.mark.parametrize("batch_size", [1, 2, 6])
def test_a_given_shape_stands_for_open_dims_and_the_batch_follows(
    batch_size: int, tmp_path: Path
) -> None:
    graph = bind(
        _open_dims(tmp_path, "?"), batch_size=batch_size, input_shapes=(("x", (1, 3, 5, 7)),)
    )
    assert graph.types["y"].shape == (batch_size, 3, 5, 7)


def test_without_any_declared_dim_the_first_is_the_batch() -> None:
    model = load_model(DATA / "unknown_rank.onnx")
    assert batch_symbol_of(model) is None
    graph = bind(model, batch_size=4, input_shapes=(("x", (1, 3, 8)),))
    assert graph.types["y"].shape == (4, 3, 8)


def test_an_open_batch_is_the_models_own_and_not_a_fixed_one(tmp_path: Path) -> None:
    body = (
        "g (float[n,3] x) => (float[n,3] y) "
        "{ m = ReduceMean <axes: ints = [0]> (x) y = Sub (x, m) }"
    )
    proto = model_of(body)
    proto.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    graph = bind(load_model(saved(tmp_path, proto)), batch_size=4, input_shapes=(("x", (1, 3)),))
    assert graph.types["y"].shape == (4, 3)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("z", (1, 3, 5, 7), "--input-shape z: the model has no such input; it has 'x'"),
        ("x", (1, 3, 5), "--input-shape x=1x3x5: has 3 dims, the model declares 4"),
        ("x", (1, 4, 5, 7), "x=1x4x5x7: dim 1 is 4, the model declares 3"),
        ("x", (1, 3, 0, 7), "x=1x3x0x7: every extent must be 1 or more"),
    ],
)
def test_wrong_shapes_are_named(
    name: str, shape: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    with pytest.raises(SymbolError, match=says):
        bind(_open_dims(tmp_path, "?"), batch_size=1, input_shapes=((name, shape),))


def test_a_given_shape_binds_the_symbols_in_it(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, _TWO))
    graph = bind(model, batch_size=3, input_shapes=(("a", (1, 8)),))
    assert graph.types["b"].shape == (3, 8)
    with pytest.raises(SymbolError, match="--input-shape a: s=8: but s is also given as 9"):
        bind(model, batch_size=3, symbols=(("s", 9),), input_shapes=(("a", (1, 8)),))


def _open_dims(folder: Path, dim: str) -> OnnxModel:
    """An image input with a named batch, three channels and two dims that say nothing."""
    proto = model_of("g (float[n,3,h,w] x) => (float[n,3,h,w] y) { y = Relu (x) }")
    for given in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        given.ClearField("dim_param")
        if dim:
            given.dim_param = dim
    return load_model(saved(folder, proto))
