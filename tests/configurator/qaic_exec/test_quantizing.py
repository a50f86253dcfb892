from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import qpc
from compiler.program import TaskKind
from configurator.errors import UsageError
from configurator.int8 import Method
from configurator.qaic_exec.app import FAILED, OK, invoke
from configurator.qaic_exec.command_line import parse
from configurator.qaic_exec.quantizing import node_names, quantization_of
from tests.compiler.quantized import models


def _profiled(folder: Path) -> list[str]:
    """A model and its raw files, as the vendor's tool takes them."""
    path = models.cnn(folder / "cnn.onnx", np.random.default_rng(2))
    names = []
    for at, feeds in enumerate(models.samples(path, 3)):
        names.append(f"x{at}.raw")
        feeds["x"].tofile(folder / names[-1])
    (folder / "list.txt").write_text("\n".join(names) + "\n")
    listed = f"-input-list-file={folder / 'list.txt'}"
    return [f"-m={path}", "-aic-hw", "-compile-only", "-convert-to-quantize", listed]


def test_a_network_is_profiled_and_quantised_in_one_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [*_profiled(tmp_path), f"-aic-binary-dir={tmp_path / 'bin'}"]
    assert invoke(line) == OK
    printed = capsys.readouterr().out
    assert f"Reading ONNX Model from {tmp_path / 'cnn.onnx'}" in printed
    assert "Compiling model with INT8 precision." in printed
    kinds = qpc.read(tmp_path / "bin").tasks.kind
    assert (kinds == TaskKind.MATMUL_INT8).any()
    assert not (kinds == TaskKind.MATMUL).any()


@pytest.mark.parametrize(
    "kept",
    [
        ["-execute-nodes-in-fp16=Gemm,conv_0"],
        ["-keep-original-precision-for-nodes=Gemm", "-execute-nodes-in-fp16=conv_0"],
        ["-node-precision-info=nodes.yaml"],
    ],
)
def test_listed_nodes_and_operators_stay_in_fp16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[str]
) -> None:
    line = [*_profiled(tmp_path), f"-aic-binary-dir={tmp_path / 'bin'}", *kept]
    (tmp_path / "nodes.yaml").write_text("FP16NodeInstanceNames:\n  - conv_0\n  - Gemm\n")
    monkeypatch.chdir(tmp_path)
    assert invoke(line) == OK
    kinds = qpc.read(tmp_path / "bin").tasks.kind
    assert (kinds == TaskKind.MATMUL).any()
    assert (kinds == TaskKind.MATMUL_INT8).any()


def test_a_name_that_is_not_in_the_network_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*_profiled(tmp_path), "-execute-nodes-in-fp16=Nowhere"]) == OK
    assert "WARNING: Nowhere: the network has no such node" in capsys.readouterr().out


def test_without_inputs_to_profile_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = models.mlp(tmp_path / "mlp.onnx", np.random.default_rng(0))
    assert invoke([f"-m={path}", "-aic-hw", "-convert-to-quantize"]) == FAILED
    printed = capsys.readouterr()
    assert "-input-list-file" in printed.out + printed.err


@pytest.mark.parametrize(
    ("named", "method", "warns"),
    [
        ("None", Method.MINMAX, False),
        ("KLMinimization", Method.ENTROPY, False),
        ("KLMinimizationV2", Method.ENTROPY, False),
        ("Percentile", Method.PERCENTILE, False),
        ("SQNR", Method.MINMAX, True),
    ],
)
def test_calibrations(named: str, method: Method, warns: bool) -> None:
    line = ["-m=m.onnx", "-convert-to-quantize", "-input-list-file=l.txt"]
    found = quantization_of(parse([*line, f"-quantization-calibration={named}"]))
    assert found is not None
    assert (found.settings.method, bool(found.warnings)) == (method, warns)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FP16NodeInstanceNames: [a, 'b/c']\n", ("a", "b/c")),
        ("# kept\nFP32NodeInstanceNames:\n  - a\n  - b\nother:\n  - c\n", ("a", "b")),
        ("FP32NodeInstanceNames: []\nFP16NodeInstanceNames:\n- x\n", ("x",)),
    ],
)
def test_precision_files(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    assert node_names(path) == names


def test_a_precision_file_without_nodes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("a: 1\n")
    with pytest.raises(UsageError, match="names no nodes"):
        node_names(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [("\n", "lists no files"), ("a.raw b.raw\n", "names 2 files"), ("a.raw\n", "is no file")],
)
def test_a_list_that_does_not_fit_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    line = _profiled(tmp_path)
    (tmp_path / "list.txt").write_text(text)
    assert invoke(line) == FAILED
    printed = capsys.readouterr()
    assert says in printed.out + printed.err
