"""`configurator profile`: its numbers are those of the run, its trace is one that viewers load."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.driver import OnnxCompiler
from compiler.options import CompileOptions
from compiler.program import Program, TaskKind
from compiler.target import Sku, device
from configurator import explain
from configurator.cli.app import invoke
from configurator.profile import report
from configurator.profile.trace import trace_events
from runtime_sim.options import RunOptions
from runtime_sim.profile.profile import profile
from tests.configurator.test_cli_bad_input import model_bytes
from tests.oracles.programs import programs

RESNET50 = Path(__file__).parents[3] / "studies" / "models" / "resnet50.onnx"
STD = device(Sku.STD)
POINT = ["--cores", "2", "--batch-size", "4"]
QUEUE = ["--instances", "3", "--set-size", "2"]
OPTIONS = st.builds(RunOptions, instances=st.integers(1, 3), set_size=st.integers(1, 4))


@pytest.fixture(scope="module")
def resnet() -> Program:
    return OnnxCompiler().compile(RESNET50, CompileOptions(num_cores=2, batch_size=4), STD)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model é.onnx"
    path.write_bytes(model_bytes())
    return path


def asked(capsys: pytest.CaptureFixture[str], *argv: object) -> Any:
    assert invoke([str(word) for word in argv]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], code: int, *argv: object) -> str:
    assert invoke([str(word) for word in argv]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    return error


@given(program=programs(), options=OPTIONS)
def test_a_document_adds_up(program: Program, options: RunOptions) -> None:
    found = report.document(profile(program, STD, options))["profile"]
    assert isinstance(found, dict)
    whole = found["round_trip"]["total_ps"]
    assert sum(each["total_ps"] for each in found["parts"].values()) == whole
    assert sum(each["total_ps"] for each in found["stages"].values()) == whole
    assert found["execution"] == found["stages"]["execute"]
    paths = [
        sum(group["path"]["total_ps"] for group in found[kind])
        for kind in ("layers", "operators", "operations")
    ]
    assert paths[0] == paths[1] == paths[2]
    if not program.stage_cores:
        assert paths[0] == found["execution"]["total_ps"]


def test_a_network_s_work_is_that_of_its_explanation(resnet: Program) -> None:
    """Counted a second time, from the same tasks, by other code."""
    found = profile(resnet, STD, RunOptions(instances=3, set_size=2))
    for group, work in zip(found.layers, explain.layer_works(resnet), strict=True):
        assert group.tasks == work.tasks
        assert group.macs == work.hmx_macs
        assert group.ddr_bytes == work.ddr_bytes
        assert group.sent_bytes == work.sent_bytes
    reads = resnet.tasks.kind == TaskKind.READ
    named = {operation.name: group for operation, group in found.operations}
    constants = int(resnet.tasks.w0[reads & (resnet.tasks.w1 == 0)].sum())
    assert named["read constants"].read_bytes == constants


@given(values=st.lists(st.integers(0, 10**15), min_size=1, max_size=12))
def test_shown_shares_add_up_to_a_hundred(values: list[int]) -> None:
    shown = report.percents(values)
    if not sum(values):
        assert set(shown) == {"-"}
        return
    hundredths = [round(float(text.removesuffix(" %")) * 100) for text in shown]
    assert sum(hundredths) == 10_000
    for value, share in zip(values, hundredths, strict=True):
        assert abs(share - value * 10_000 / sum(values)) < 1


@given(program=programs(), options=OPTIONS, shown=st.integers(1, 3))
def test_a_trace_is_one_that_viewers_load(
    program: Program, options: RunOptions, shown: int
) -> None:
    """Complete events in order of time, none negative, none over another in its thread."""
    found = profile(program, STD, options)
    events = json.loads(json.dumps(trace_events([("a", found), ("b", found)], shown)))
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["ph"] for event in events} <= {"M", "X"}
    assert all(a["ts"] <= b["ts"] for a, b in pairwise(spans))
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    threads = defaultdict(list)
    for span in spans:
        assert span["ts"] >= 0
        assert span["dur"] >= 0
        threads[span["pid"], span["tid"]].append(span)
    assert set(threads) <= named
    for lane in threads.values():
        for one, other in pairwise(lane):
            assert round((one["ts"] + one["dur"]) * 1000) <= round(other["ts"] * 1000)
    first, second = (
        [{**span, "pid": 0} for span in spans if span["pid"] == process] for process in (1, 2)
    )
    assert first == second


def test_a_trace_has_a_lane_for_each_engine_and_stage(resnet: Program) -> None:
    found = profile(resnet, STD, RunOptions(instances=1, set_size=3))
    events = trace_events([("resnet50", found)], 2)
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}  # type: ignore[index]
    engines = {f"core {core} {name}" for core in range(2) for name in ("HMX", "HVX", "LOAD")}
    assert engines <= names
    assert {"critical path", "prepare", "input", "device wait", "execute", "output"} <= names
    layers = {e["name"] for e in events if e["ph"] == "X" and e["cat"] == "core"}
    assert layers == {layer.name for layer in resnet.layers}


def test_the_command_tells_what_run_does(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = asked(capsys, "run", model, *POINT, *QUEUE, "--json")
    found = asked(capsys, "profile", model, *POINT, *QUEUE, "--json")
    assert {name: found[name] for name in ran} == ran
    mean_us = found["profile"]["round_trip"]["us"]
    assert mean_us == pytest.approx(ran["latency_ms"]["mean"] * 1e3, abs=1e-3)


def test_a_compiled_model_is_profiled_as_the_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q"
    asked(capsys, "compile", model, *POINT, "--out", out, "--json")
    found = asked(capsys, "profile", model, *POINT, *QUEUE, "--json")
    assert asked(capsys, "profile", out, *QUEUE, "--json") == found
    assert asked(capsys, "profile", out / "programqpc.bin", *QUEUE, "--json") == found
    assert "--cores" in refused(capsys, 2, "profile", out, *QUEUE, "--cores", "2")
    assert "no specialization 3" in refused(
        capsys, 2, "profile", out, *QUEUE, "--specialization", "3"
    )


def test_two_runs_side_by_side(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, other = ["profile", model, *POINT, *QUEUE, "--json"], ["--cores", "4", "--ols", "2"]
    trace = tmp_path / "t.json"
    both = asked(capsys, *line, "--versus", " ".join(other), "--trace", trace)
    first, second = asked(capsys, *line), asked(capsys, *line, *other)
    assert {name: both[name] for name in first} == first
    assert both["second"] == second
    assert both["versus"]["us_of"] == "inference"
    for row in both["versus"]["parts"]:
        assert row["first_us"] == first["profile"]["parts"][row["name"]]["us"]
        assert row["second_us"] == second["profile"]["parts"][row["name"]]["us"]
    events = json.loads(trace.read_text())["traceEvents"]
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert ["2 cores" in titles[0], "4 cores" in titles[1], len(titles)] == [True, True, 2]


def test_a_saved_run_is_compared(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["profile", model, *POINT, *QUEUE]
    saved = tmp_path / "before.json"
    saved.write_text(json.dumps(asked(capsys, *line, "--json")))
    same = asked(capsys, *line, "--versus", saved, "--json")["versus"]
    for kind in ("whole", "parts", "operators", "layers"):
        assert all(row["first_us"] == row["second_us"] for row in same[kind])
    # Of a batch twice as large, a sample's time is shown.
    more = asked(capsys, *line, "--batch-size", "8", "--versus", saved, "--json")
    assert more["versus"]["us_of"] == "sample"
    before = json.loads(saved.read_text())["profile"]["round_trip"]["us"]
    assert more["versus"]["whole"][0]["second_us"] == pytest.approx(before / 4)
    saved.write_text('{"profile": {}}')
    assert "--json" in refused(capsys, 2, *line, "--versus", saved)
    saved.write_text("{")
    assert "no JSON" in refused(capsys, 2, *line, "--versus", saved)


def test_what_cannot_be_is_said(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["profile", model, *POINT, *QUEUE]
    assert "--json" in refused(capsys, 2, *line, "--versus", "--json")
    assert "--nothing" in refused(capsys, 2, *line, "--versus", "--nothing")
    assert "14 NSPs" in refused(capsys, 2, *line, "--versus", "--instances 20")
    assert "is empty" in refused(capsys, 2, *line, "--versus", " ")
    assert "quotation" in refused(capsys, 2, *line, "--versus", "'--cores")
    assert "--layers -1" in refused(capsys, 2, *line, "--layers", "-1")
    assert "--trace-inferences 0" in refused(capsys, 2, *line, "--trace-inferences", "0")
    assert "--cores is missing" in refused(capsys, 2, "profile", model, *QUEUE)
    missing = tmp_path / "none" / "t.json"
    assert invoke([str(word) for word in (*line, "--trace", missing)]) == 5


def test_tables_show_the_longest_first(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [str(word) for word in ("profile", model, *POINT, *QUEUE)]
    assert invoke(line) == 0
    shown = capsys.readouterr().out
    for title in ("Operators", "Operations of the cores", "Layers", "From call to result"):
        assert f"\n{title}" in shown
    (total,) = [row for row in shown.splitlines() if row.startswith("total")]
    assert total.endswith("100.00 %      100.00 %")
    assert invoke([*line, "--layers", "1"]) == 0
    assert "the 1 with the longest path" in capsys.readouterr().out
