"""`tune --input-shape`: what is searched, stored, resumed and exported for dims without names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from compiler import qpc
from compiler.driver import OnnxCompiler
from compiler.program import Program
from compiler.target import Sku, device
from configurator import export
from configurator.cli.app import invoke
from configurator.qaic_exec.app import invoke as qaic_exec
from configurator.records import TrialRow
from configurator.store import open_store
from tests.compiler.frontend.files import model_of, saved, written
from tests.configurator.test_cli_bad_input import refused

IMAGES = (
    "g (float[batch,3,high,wide] x, float[batch,3,1,1] s) => (float[batch,3,high,wide] y) "
    "{ h = Relu(x) y = Mul(h, s) }"
)
TEXTS = (
    "g (int32[batch,seq] ids, float[batch,seq] mask) => (float[batch,seq] y) "
    "{ h = Cast<to = 1>(ids) y = Add(h, mask) }"
)
POINTS = ["--cores", "2", "--batch-size", "1,4", "--set-size", "1"]
GIVEN = ["--input-shape", "x=1x3x6x8", "--input-shape", "s=1x3x1x1"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two inputs whose dims have no names, but for the channels."""
    proto = model_of(IMAGES)
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.ClearField("dim_param")
    return saved(tmp_path, proto)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


def tuned(model: Path, storage: str, *given: str) -> tuple[TrialRow, ...]:
    """The rows of study `s` after a search of all its few points."""
    line = ["tune", str(model), "--study", "s", "--storage", storage, *POINTS, *given, "--json"]
    assert invoke(line) == 0
    return open_store(storage, create=False).rows("s")


def shapes(program: Program) -> dict[str, tuple[int, ...]]:
    return {binding.name: binding.shape for binding in program.inputs}


def test_a_repeated_search_adds_nothing(
    images: Path, storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tuned(images, storage, *GIVEN)
    assert len(rows) == 2 * 7  # two batch sizes; 1 to 7 instances of 2 of the card's 14 NSPs
    assert {row.candidate.compile.input_shapes for row in rows} == {
        (("s", (1, 3, 1, 1)), ("x", (1, 3, 6, 8)))
    }
    first = json.loads(capsys.readouterr().out)
    assert tuned(images, storage, *GIVEN[2:], *GIVEN[:2]) == rows
    assert json.loads(capsys.readouterr().out) == first


def test_a_study_keeps_to_its_shapes(
    images: Path, storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(images, storage, *GIVEN)
    capsys.readouterr()
    again = ["tune", str(images), "--study", "s", "--storage", storage, *GIVEN[2:]]
    refused(
        capsys,
        2,
        "input shapes s=1x3x1x1, x=1x3x6x8, now it is s=1x3x1x1, x=1x3x9x8",
        *again,
        "--input-shape",
        "x=1x3x9x8",
    )


def exported(storage: str, row: TrialRow, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the compile command, but for the folder."""
    capsys.readouterr()
    assert invoke(["export", "s", "--storage", storage, "--trial", str(row.number)]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[0])
    assert words[0] == export.COMPILER_PATH
    return [word for word in words[1:] if not word.startswith("-aic-binary-dir")]


def test_the_exported_command_compiles_the_same_program(
    images: Path, storage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tuned(images, storage, *GIVEN)
    for batch_size in (1, 4):
        row = next(row for row in rows if row.candidate.compile.batch_size == batch_size)
        words = exported(storage, row, capsys)
        assert f"-model-input=x,float,[{batch_size},3,6,8]" in words
        out = tmp_path / f"qpc-{batch_size}"
        assert qaic_exec([*words, f"-aic-binary-dir={out}"]) == 0
        made = qpc.read(out)
        assert shapes(made) == {"x": (batch_size, 3, 6, 8), "s": (batch_size, 3, 1, 1)}
        asked = OnnxCompiler().compile(images, row.candidate.compile, device(Sku.STD))
        assert shapes(made) == shapes(asked)
        assert made.layers == asked.layers
        assert len(made.tasks) == len(asked.tasks)


def test_symbols_that_follow_from_a_shape_are_exported(
    tmp_path: Path, storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mask` takes its extent of `seq` from the shape that is given to `ids`."""
    model = written(tmp_path, TEXTS)
    rows = tuned(model, storage, "--input-shape", "ids=1x16")
    row = next(row for row in rows if row.candidate.compile.batch_size == 4)
    words = exported(storage, row, capsys)
    said = [word for word in words if re.match("-onnx|-model-|-batchsize", word)]
    assert said == [
        "-onnx-define-symbol=seq,16",
        "-onnx-define-symbol=batch,4",
        "-model-input=ids,int32,[4,16]",
    ]
    assert qaic_exec([*words, f"-aic-binary-dir={tmp_path / 'qpc'}"]) == 0
    assert shapes(qpc.read(tmp_path / "qpc")) == {"ids": (4, 16), "mask": (4, 16)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["z=1x3x6x8"], "--input-shape z: the model has no such input; it has 'x', 's'"),
        (["x=1x3x0x8"], "--input-shape x=1x3x0x8: every extent must be 1 or more"),
        (["x=0x3x6x8"], "--input-shape x=0x3x6x8: every extent must be 1 or more"),
        (["x=1x3x-6x8"], "--input-shape x=1x3x-6x8: must be NAME=DIMS"),
        (["x"], "--input-shape x: must be NAME=DIMS"),
        (["x=1x3x6"], "--input-shape x=1x3x6: has 3 dims, the model declares 4"),
        (["x=1x4x6x8"], "dim 1 is 4, the model declares 3"),
        (["x=1x3x6x8", "x=1x3x6x8"], "--input-shape x is given 2 times"),
        (["x=1x3x6x8"], "input 's': dim 0 has neither extent nor name"),
    ],
)
def test_shapes_that_cannot_be_are_one_line_and_leave_no_database(
    images: Path,
    tmp_path: Path,
    storage: str,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    told: str,
) -> None:
    words = [word for text in given for word in ("--input-shape", text)]
    refused(capsys, 2, told, "tune", str(images), "--storage", storage, *words)
    assert not (tmp_path / "studies.db").exists()
