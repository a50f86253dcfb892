"""What users get wrong: one clear line on stderr, the right exit code, nothing half-written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from configurator.cli.app import invoke

POINT = ["--cores", "1", "--instances", "1", "--batch-size", "1"]


def model_bytes(op: str = "MatMul", domain: str = "", symbol: str | int = 6) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", symbol, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", symbol, 8])
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    node = helper.make_node(op, ["x", "w"], ["y"], domain=domain, name="the_node")
    graph = helper.make_graph([node], "tiny", [x], [y], [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes())
    return path


def refused(capsys: pytest.CaptureFixture[str], code: int, told: str, *argv: str) -> None:
    assert invoke(argv) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1, shown.err
    assert shown.err.startswith("error: ")
    assert told in shown.err


def empty_graph() -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])
    graph = helper.make_graph([], "empty", [x], [x])
    return helper.make_model(graph, ir_version=9).SerializeToString()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no such file"),
        (b"this is no model, just text " * 20, "not an ONNX file"),
        (model_bytes()[:-40], "not a complete ONNX file"),
        (empty_graph(), "no nodes"),
        (model_bytes("Frobnicate", "acme"), "node 'the_node' (acme::Frobnicate, opset 1)"),
        (model_bytes(symbol="length"), "give --symbol length=INT"),
    ],
    ids=["missing", "text", "truncated", "empty", "unknown operator", "unbound symbol"],
)
@pytest.mark.parametrize("command", ["run", "tune"])
def test_models_that_cannot_be_compiled(
    command: str,
    content: bytes | None,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, database = tmp_path / "bad.onnx", tmp_path / "studies.db"
    if content is not None:
        path.write_bytes(content)
    more = POINT if command == "run" else ["--storage", f"sqlite:///{database}"]
    refused(capsys, 2, told, command, str(path), *more)
    assert not database.exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (["--cores", "8", "--instances", "2"], "8 cores x 2 instances = 16, std has 14 NSPs"),
        (["--cores", "15"], "std has 14 NSPs"),
        (["--set-size", "0"], "set size is 0"),
        (["--batch-size", "0"], "batch size is 0"),
        (["--cores", "-1"], "cores is -1"),
        (["--instances", "two"], "two is not a whole number"),
        (["--cores", "9" * 30], "is too large"),
        (["--mos", "2"], "mos is 2, must be between 1 and cores (1)"),
        (["--ols", "0"], "ols is 0"),
        (["--sku", "huge"], "'huge' is not one of"),
        (["--symbol", "nosuch=3"], "has no such symbol"),
        (["--symbol", "nosuch"], "must be NAME=INT"),
        (["--input-shape", "x=3by4"], "must be NAME=DIMS"),
        (["--sdp-cluster-sizes", "a,b"], "must be whole numbers"),
        (["--size-split-granularity", "1"], "must be 512 to 2048"),
    ],
)
def test_options_that_cannot_be(
    changed: list[str], told: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, 2, told, "run", str(model), *POINT, *changed)


def test_databases_that_cannot_be(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to look like one\n" * 40)
    missing = f"sqlite:///{tmp_path / 'none.db'}"
    below_file = f"sqlite:///{text / 'below.db'}"
    refused(capsys, 5, "no such database", "trials", "s", "--storage", missing)
    refused(capsys, 5, "not a database", "trials", "s", "--storage", f"sqlite:///{text}")
    refused(capsys, 2, "no database URL", "trials", "s", "--storage", "garbage")
    refused(capsys, 5, "text.db", "tune", str(model), "--storage", below_file, "--json")


def test_a_database_of_a_newer_schema(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "studies.db"
    storage = ["--storage", f"sqlite:///{database}"]
    assert invoke(["tune", str(model), "--trials", "1", "--study", "s", *storage, "--json"]) == 0
    capsys.readouterr()
    with sqlite3.connect(database) as connection:
        connection.execute("update schema_version set version = 99")
    refused(capsys, 5, "schema version 99, this release knows", "trials", "s", *storage)


def test_a_study_of_another_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = ["--study", "s", "--storage", f"sqlite:///{tmp_path / 'studies.db'}", "--json"]
    assert invoke(["tune", str(model), "--trials", "1", *storage]) == 0
    other = tmp_path / "other.onnx"
    other.write_bytes(model_bytes(symbol=7))
    capsys.readouterr()
    refused(capsys, 2, "was made with model", "tune", str(other), "--trials", "2", *storage)
    refused(capsys, 2, "no trial 9", "export", *storage[1:4], "--trial", "9")


def test_folders_that_cannot_be_written(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "folder")
    compiled = ["compile", str(model), "--cores", "1", "--batch-size", "1", "--out", below]
    refused(capsys, 5, "cannot write", *compiled)
    refused(capsys, 5, "cannot write", "run", str(model), *POINT, "--cache-dir", below)
    refused(capsys, 2, "cannot read", "simulate", str(tmp_path), "--instances", "1")


def test_a_model_that_fits_no_card_is_no_feasible_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 131072])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 131072])
    shape = numpy_helper.from_array(np.asarray([131072, 131072], np.int64), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "huge", [x], [y], [shape])
    path = tmp_path / "huge.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    refused(capsys, 3, "std has 17.2 GB", "run", str(path), *POINT)
