"""The vendor's JSON of several shapes: how it is read, and what `compile` makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import qpc
from configurator.cli.app import invoke
from configurator.errors import UsageError
from configurator.qaic_exec.app import invoke as qaic_exec
from configurator.specializations import read_specializations
from tests.compiler.frontend.files import written
from tests.configurator.test_cli_bad_input import refused

BODY = (
    "g (int32[batch,seq] ids, float[batch,seq] mask) => (float[batch,seq] y) "
    "{ h = Cast<to = 1>(ids) y = Add(h, mask) }"
)
ENTRIES: list[dict[str, object]] = [
    {"batch": "1", "seq": "128"},
    {"batch": 4, "seq": 8},
    {"seq": 32},
]
# `--batch-size 2` fills the gap of the last one.
SHAPES = [(1, 128), (4, 8), (2, 32)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path, BODY)


def file_of(folder: Path, entries: Sequence[Mapping[str, object]]) -> Path:
    path = folder / "s.json"
    path.write_text(json.dumps({"specializations": entries}))
    return path


def compiling(model: Path, *more: str) -> list[str]:
    return ["compile", str(model), "--cores", "2", "--out", str(model.parent / "qpc"), *more]


@pytest.fixture
def compiled(model: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = file_of(model.parent, ENTRIES)
    line = compiling(model, "--specializations", str(path), "--batch-size", "2")
    assert invoke(line) == 0
    said = capsys.readouterr().out
    assert "specialization 1: batch size 4, seq 8\n" in said
    return model.parent / "qpc"


def test_compile_writes_one_program_an_entry(compiled: Path) -> None:
    assert qpc.program_count(compiled) == 3
    for number, shape in enumerate(SHAPES):
        program = qpc.read(compiled, number)
        assert (program.options.batch_size, program.options.symbols) == (
            shape[0],
            (("seq", shape[1]),),
        )
        assert [one.shape for one in (*program.inputs, *program.outputs)] == [shape] * 3


def test_each_can_be_simulated(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, (batch_size, seq) in enumerate(SHAPES):
        line = ["simulate", str(compiled), "--instances", "1", "--json"]
        assert invoke([*line, "--specialization", str(number)]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["batch_size"], document["symbols"]) == (batch_size, {"seq": seq})
        assert document["inferences_per_s"] > 0
    beyond = ["simulate", str(compiled), "--instances", "1", "--specialization", "3"]
    refused(capsys, 2, "holds no specialization 3, the last is 2", *beyond)


def test_inspect_lists_them(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["inspect", str(compiled), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = ("ids", "mask", "y")
    assert document["specializations"] == [
        {name: list(shape) for name in names} for shape in SHAPES
    ]
    assert document["program"]["options"]["batch_size"] == 1
    assert invoke(["inspect", str(compiled)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for words in (["specialization", *names], ["1", "4x8", "4x8", "4x8"]):
        assert words in lines


def test_the_vendors_command_line_makes_the_same_file(model: Path) -> None:
    path = file_of(model.parent, ENTRIES[:2])
    assert invoke(compiling(model, "--specializations", str(path), "--ols", "2")) == 0
    other = model.parent / "other"
    line = (
        f"-m={model} -network-specialization-config={path} -aic-num-cores=2 -ols=2 "
        f"-multicast-weights -convert-to-fp16 -compile-only -aic-binary-dir={other}"
    )
    assert qaic_exec(line.split()) == 0
    name = qpc.FILE_NAME
    assert (other / name).read_bytes() == (model.parent / "qpc" / name).read_bytes()


@pytest.mark.parametrize("explain", [False, True])
def test_the_document_has_each(
    model: Path, capsys: pytest.CaptureFixture[str], explain: bool
) -> None:
    path = file_of(model.parent, [{"batch": 2}, {"batch": 8}])
    more = ["--specializations", str(path), "--symbol", "seq=16", "--json"]
    assert invoke(compiling(model, *more, *(["--explain"] if explain else []))) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["path"] == str(model.parent / "qpc" / qpc.FILE_NAME)
    each = document["specializations"]
    assert [one["batch_size"] for one in each] == [2, 8]
    assert [one["symbols"] for one in each] == [{"seq": 16}] * 2
    assert all(("explain" in one) == explain for one in each)


def test_a_model_without_a_batch_symbol_takes_the_batch_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = written(tmp_path, "g (float[1,seq] x) => (float[1,seq] y) { y = Relu(x) }")
    path = file_of(tmp_path, [{"seq": 4}, {"seq": 9}])
    lever = "entry 0: does not say the batch size; give --batch-size\n"
    refused(capsys, 2, lever, *compiling(model, "--specializations", str(path)))
    assert invoke(compiling(model, "--specializations", str(path), "--batch-size", "3")) == 0
    shapes = [qpc.read(tmp_path / "qpc", number).inputs[0].shape for number in range(2)]
    assert shapes == [(3, 4), (3, 9)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "s.json: is not JSON"),
        ("[]", "s.json: has 0 entries, must have 1 to 48"),
        ('{"specializations": []}', "has 0 entries"),
        ('{"shapes": [{"batch": 1}]}', "must be {"),
        ('[{"batch": 0, "seq": 1}]', "entry 0: batch is 0, must be a whole number from 1"),
        (
            '[{"batch": 1, "seq": 1}, {"batch": 1, "seq": 1, "ctx": 9}]',
            "entry 1: ctx is 9, but the model has no such symbol; it has batch, seq",
        ),
        ('[{"seq": 1}]', "entry 0: does not say the batch size; add batch, or give --batch-size"),
        ('[{"batch": 1}]', "symbol 'seq' (dim 1 of input 'ids') has no value"),
        (None, "s.json: No such file"),
    ],
)
def test_what_compile_cannot_take_is_one_line_and_leaves_nothing(
    model: Path, capsys: pytest.CaptureFixture[str], content: str | None, told: str
) -> None:
    path = model.parent / "s.json"
    if content is not None:
        path.write_text(content)
    refused(capsys, 2, told, *compiling(model, "--specializations", str(path)))
    assert not (model.parent / "qpc").exists()


def test_without_a_file_the_batch_size_is_needed(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, 2, "--batch-size is missing", *compiling(model))


@given(
    entries=st.lists(
        st.dictionaries(st.text(min_size=1, max_size=5), st.integers(1, 2**40), max_size=4),
        min_size=1,
        max_size=48,
    ),
    bare=st.booleans(),
)
def test_specializations_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, int]], bare: bool
) -> None:
    path = tmp_path_factory.mktemp("s") / "s.json"
    path.write_text(json.dumps(entries if bare else {"specializations": entries}))
    found = read_specializations(path, f"--option {path}")
    assert [dict(entry) for entry in found] == entries


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "must be"),
        ('{"specializations": {}}', "must be"),
        ("3", "must be"),
        ("[]", "has 0 entries"),
        ("[1]", "entry 0: must be an object"),
        ('[{"a": 0}]', "a is 0"),
        ('[{"a": "-1"}]', "whole number"),
        ('[{"a": true}]', "a is true"),
        ('[{"a": 1.5}]', "a is 1.5"),
        ('[{"a": null}]', "a is null"),
        ('[{"a": [1]}]', "whole number"),
        (json.dumps([{}] * 49), "has 49 entries, must have 1 to 48"),
        (" " * (1 << 20) + "[]", "larger than"),
    ],
)
def test_specializations_that_cannot_be(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=said) as refused:
        read_specializations(path, f"--option {path}")
    assert str(path) in str(refused.value)


def test_specializations_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_specializations(tmp_path / "none.json", "--option")
    with pytest.raises(UsageError, match="directory"):
        read_specializations(tmp_path, "--option")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not JSON"):
        read_specializations(tmp_path / "binary", "--option")
