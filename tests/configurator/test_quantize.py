from __future__ import annotations

import builtins
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import ModelInput, OnnxCompiler
from compiler.execute.graph import run_graph
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from configurator.calibration import calibration_of
from configurator.cli import app
from configurator.errors import UsageError
from configurator.int8 import Method, Settings
from configurator.quantize import quantize
from tests.compiler.quantized import models

IMAGE = ModelInput("x", DType.FLOAT32, ("batch", 3, 4))
IDS = ModelInput("a/ids", DType.INT64, (1, "length"))


def _sampled(folder: Path, make: models.Make, count: int = 4) -> tuple[Path, Path]:
    """A float model and a folder of samples."""
    path = make(folder / "model.onnx", np.random.default_rng(5))
    samples = folder / "samples"
    samples.mkdir()
    for at, feeds in enumerate(models.samples(path, count)):
        np.save(samples / f"{at:02}.npy", feeds["x"])
    return path, samples


def _arrays(
    folder: Path, inputs: Sequence[ModelInput], symbols: Mapping[str, int] | None = None
) -> list[dict[str, models.Values]]:
    return list(calibration_of(folder, inputs, symbols or {}).arrays())


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("make", [models.cnn, models.mlp, models.attention])
def test_values_stay_near_those_of_the_float_model(
    tmp_path: Path, make: models.Make, method: Method
) -> None:
    path, samples = _sampled(tmp_path, make)
    made = quantize(path, samples, tmp_path / "out" / "int8.onnx", Settings(method=method))
    assert made.quantised == made.products > 0
    feeds = {"x": np.load(samples / "00.npy")}
    batch = feeds["x"].shape[0]
    graph = OnnxCompiler().graph(made.path, CompileOptions(num_cores=1, batch_size=batch))
    wanted = models.reference(path, feeds)
    assert np.abs(run_graph(graph, feeds)["y"] - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("shape", [(7,), (1, 7), (1,), (), (1, 1), (2, 7), (2, 1)])
def test_biases_of_any_shape_that_gemm_takes(
    tmp_path: Path, shape: tuple[int, ...], turned: int
) -> None:
    def make(path: Path, rng: np.random.Generator) -> Path:
        made = models.Sketch(rng, (2, 12))
        weight = made.weight(7, 12) if turned else made.weight(12, 7)
        bias = made.constant(np.asarray(rng.standard_normal(shape), np.float32))
        gemm = made.op("Gemm", "x", weight, bias, transB=turned, beta=0.5)
        return made.save(path, made.op("Relu", gemm))

    path, samples = _sampled(tmp_path, make)
    made = quantize(path, samples, tmp_path / "int8.onnx", Settings())
    assert (made.products, made.quantised) == (1, 1)
    feeds = {"x": np.load(samples / "00.npy")}
    wanted = models.reference(path, feeds)
    assert np.abs(models.reference(made.path, feeds) - wanted).max() < 0.05 * wanted.max()
    graph = OnnxCompiler().graph(made.path, CompileOptions(num_cores=1, batch_size=2))
    assert np.abs(run_graph(graph, feeds)["y"] - wanted).max() < 0.05 * wanted.max()


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    path, samples = _sampled(tmp_path, models.attention)
    digests = {
        hashlib.sha256(
            quantize(path, samples, tmp_path / name / "int8.onnx", Settings()).path.read_bytes()
        ).hexdigest()
        for name in ("first", "second")
    }
    assert len(digests) == 1


def test_excluded_nodes_and_operators_stay_in_fp16(tmp_path: Path) -> None:
    path, samples = _sampled(tmp_path, models.cnn)
    settings = Settings(exclude_nodes=("conv_0",), exclude_ops=("Gemm",))
    made = quantize(path, samples, tmp_path / "int8.onnx", settings)
    graph = OnnxCompiler().graph(made.path, CompileOptions(num_cores=1))
    kinds = {node.op for node in graph.nodes}
    assert made.products - made.quantised == 2
    assert {"Conv", "Gemm", "QuantizedConv"} <= kinds


def test_a_node_that_was_merged_into_another_is_excluded_all_the_same(tmp_path: Path) -> None:
    path, samples = _sampled(tmp_path, models.mlp)
    name = next(
        node for node in ("matmul_2", "matmul_3") if node in path.read_bytes().decode("latin1")
    )
    made = quantize(path, samples, tmp_path / "int8.onnx", Settings(exclude_nodes=(name,)))
    assert made.products - made.quantised == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(exclude_nodes=("nowhere",)), "no such node"),
        (Settings(exclude_ops=("Fold",)), "no such operator"),
    ],
)
def test_names_that_are_not_in_the_model_are_refused(
    tmp_path: Path, settings: Settings, says: str
) -> None:
    path, samples = _sampled(tmp_path, models.mlp)
    with pytest.raises(UsageError, match=says):
        quantize(path, samples, tmp_path / "int8.onnx", settings)
    assert not (tmp_path / "int8.onnx").exists()


def test_without_onnxruntime_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, samples = _sampled(tmp_path, models.mlp)
    plain = builtins.__import__

    def hidden(name: str, *rest: object) -> object:
        if name.startswith("onnxruntime"):
            raise ImportError(name)
        return plain(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", hidden)
    with pytest.raises(UsageError, match=r"aic-configurator\[quantize\]"):
        quantize(path, samples, tmp_path / "int8.onnx", Settings())


def test_files_count_in_the_order_of_their_names(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    (tmp_path / "b.raw").write_bytes((values + 1).tobytes())
    np.save(tmp_path / "c.npy", values + 2)
    np.savez(tmp_path / "a.npz", x=values)
    found = _arrays(tmp_path, [IMAGE])
    assert [float(sample["x"][0, 0, 0]) for sample in found] == [0.0, 1.0, 2.0]
    assert [sample["x"].shape for sample in found] == [(1, 3, 4)] * 3


def test_several_inputs_have_a_folder_each(tmp_path: Path) -> None:
    for name in ("x", "a_ids"):
        (tmp_path / name).mkdir()
    for at in range(2):
        np.save(tmp_path / "x" / f"{at}.npy", np.full((1, 3, 4), at, np.float32))
        (tmp_path / "a_ids" / f"{at}.raw").write_bytes(np.arange(at, at + 5).tobytes())
    found = _arrays(tmp_path, [IMAGE, IDS])
    assert [sample["a/ids"].tolist() for sample in found] == [[[0, 1, 2, 3, 4]], [[1, 2, 3, 4, 5]]]
    (tmp_path / "x" / "2.npy").write_bytes((tmp_path / "x" / "0.npy").read_bytes())
    with pytest.raises(UsageError, match=r"x: 3, a/ids: 2"):
        _arrays(tmp_path, [IMAGE, IDS])


def _write(folder: Path, what: str) -> None:
    match what:
        case "dtype":
            np.save(folder / "0.npy", np.zeros((1, 3, 4)))
        case "shape":
            np.save(folder / "0.npy", np.zeros((1, 4, 3), np.float32))
        case "rank":
            np.save(folder / "0.npy", np.zeros((3, 4), np.float32))
        case "bytes":
            (folder / "0.raw").write_bytes(b"\0" * 50)
        case "pickle":
            np.save(folder / "0.npy", np.array([{}], dtype=object), allow_pickle=True)
        case "text":
            (folder / "0.npy").write_text("no array")
        case "archive":
            np.savez(folder / "0.npz", other=np.zeros(3))
        case "damaged":
            (folder / "0.npz").write_bytes(b"PK\x03\x04 and no more")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("dtype", "holds float64, input 'x' takes float32"),
        ("shape", "has shape 1x4x3, input 'x' takes batchx3x4"),
        ("rank", "has shape 3x4, input 'x' takes batchx3x4"),
        ("bytes", r"holds 50 bytes, input 'x' \(float32 batchx3x4\) takes 48"),
        ("pickle", "no array"),
        ("text", "no array"),
        ("archive", "holds no array 'x'"),
        ("damaged", "no archive"),
        ("nothing", "no samples found"),
    ],
)
def test_a_sample_that_does_not_fit_is_one_clear_line(
    tmp_path: Path, what: str, says: str
) -> None:
    _write(tmp_path, what)
    with pytest.raises(UsageError, match=says) as caught:
        _arrays(tmp_path, [IMAGE])
    assert "\n" not in str(caught.value)


def test_open_dims_of_a_file_without_shape_need_a_symbol(tmp_path: Path) -> None:
    open_twice = ModelInput("x", DType.FLOAT32, ("batch", "length"))
    (tmp_path / "0.raw").write_bytes(np.zeros(12, np.float32).tobytes())
    with pytest.raises(UsageError, match="--symbol"):
        _arrays(tmp_path, [open_twice])
    assert _arrays(tmp_path, [open_twice], {"length": 4})[0]["x"].shape == (3, 4)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--precision", "int8"], 2, "nothing in the model is quantised"),
        (["--calibration", "SAMPLES"], 2, "--precision int8"),
        (["--exclude-node", "conv_0"], 2, "--calibration"),
        (["--precision", "int8", "--calibration", "SAMPLES"], 0, ""),
    ],
)
def test_run_in_int8(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    path, samples = _sampled(tmp_path, models.cnn)
    given = [str(samples) if word == "SAMPLES" else word for word in arguments]
    point = ["--cores", "1", "--instances", "1", "--batch-size", "1"]
    cache = ["--cache-dir", str(tmp_path / "cache")]
    assert app.invoke(["run", str(path), *point, *cache, *given]) == code
    assert says in capsys.readouterr().err
