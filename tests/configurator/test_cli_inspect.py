from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compiler import qpc
from compiler.ir.dtypes import DType
from compiler.program import Binding
from configurator.cli import exits
from configurator.cli.app import invoke
from tests.oracles.programs import ProgramBuilder

MINIMAL = Path(__file__).parents[1] / "compiler" / "qpc" / "data" / "minimal_accepted.qpc"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    builder = ProgramBuilder(num_cores=2, batch_size=3)
    builder.read(1234)
    program = replace(builder.build(), inputs=(Binding("mask", DType.BOOL, (), 1),))
    qpc.write(program, tmp_path)
    return tmp_path


def test_a_container_of_ours_is_shown(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["inspect", str(written)]) == exits.OK
    shown = capsys.readouterr().out
    for said in ("aic_configurator_program", "mask", "bool", "scalar", "1,234", "batch size"):
        assert said in shown


def test_the_document_says_the_same(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["inspect", str(written / qpc.FILE_NAME), "--json"]) == exits.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["network"]["cores"] == 2
    assert shown["network"]["batch_size"] == 3
    (mask,) = shown["inputs"]
    assert mask == {
        "name": "mask",
        "type": "bool",
        "shape": [],
        "size_bytes": 1,
        "buffer": 0,
        "offset_bytes": 0,
    }
    assert shown["program"]["options"]["num_cores"] == 2
    assert shown["program"]["options"]["precision"] == "fp16"
    assert [core["ddr_read_bytes"] for core in shown["cores"]] == [1234, 0]
    assert shown["graph"] is None


def test_a_container_of_others_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["inspect", str(MINIMAL)]) == exits.OK
    assert "only a real card can run it" in capsys.readouterr().out
    assert invoke(["inspect", str(MINIMAL), "--json"]) == exits.OK
    assert json.loads(capsys.readouterr().out)["program"] is None


def test_what_compile_writes_holds_the_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(__file__).parents[1] / "compiler" / "frontend" / "data" / "plain_cnn.onnx"
    options = ["--cores", "2", "--batch-size", "3", "--out", str(tmp_path)]
    assert invoke(["compile", str(model), *options]) == exits.OK
    capsys.readouterr()
    assert invoke(["inspect", str(tmp_path), "--json"]) == exits.OK
    shown = json.loads(capsys.readouterr().out)
    graph = qpc.read_graph(tmp_path)
    stored = sum(
        2 * constant.type.elements
        for constant in graph.constants.values()
        if constant.type.dtype.is_float and constant.type.elements > 16
    )
    assert 0 < stored <= shown["memory"]["static_constants_bytes"] < stored + 1024
    assert shown["graph"]["nodes"] == len(graph.nodes)
    assert [one["shape"][0] for one in shown["inputs"]] == [3]


def test_what_is_no_container_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(b"x" * 99)
    for path in (tmp_path / "x", tmp_path, tmp_path / "missing"):
        assert invoke(["inspect", str(path)]) == exits.USAGE
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert str(path) in captured.err
        assert captured.out == ""
