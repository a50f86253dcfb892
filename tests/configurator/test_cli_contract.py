"""What scripts rely on: documents, exit codes, and that asking again adds nothing."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configurator.cli.app import invoke
from tests.configurator.test_cli_bad_input import model_bytes

HEAVY = ("onnx", "numba", "optuna", "pandas", "sqlalchemy", "matplotlib")
LATENCY = {"mean", "p50", "p90", "p95", "p99"}

Json = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model é.onnx"
    path.write_bytes(model_bytes())
    return path


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Json:
    """Run a command that must succeed; its one document."""

    def run(*argv: str) -> Any:
        assert invoke(argv) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def storage(tmp_path: Path) -> list[str]:
    return ["--storage", f"sqlite:///{tmp_path / 'studies.db'}"]


def test_a_study_from_tune_to_export(
    model: Path,
    storage: list[str],
    asked: Json,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tuning = ["tune", str(model), "--study", "s", "--trials", "6", *storage, "--json"]
    first = asked(*tuning)
    assert {"study", "best", "baseline", "front", "stopped"} <= set(first)
    rows = asked("trials", "s", *storage, "--json")
    assert len(rows) == 6
    knobs = {"cores", "instances", "batch_size", "set_size", "ols", "mos", "multicast_weights"}
    assert {"number", "state", "inferences_per_s", "latency_ms", "reason", *knobs} <= set(rows[0])
    assert set(rows[0]["latency_ms"]) == LATENCY
    assert asked(*tuning)["best"] == first["best"]
    assert asked("trials", "s", *storage, "--json") == rows
    assert invoke(["trials", "s", *storage, "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert invoke(["plot", "s", *storage, "--out", str(tmp_path / "plots")]) == 0
    assert len(list((tmp_path / "plots").glob("*.png"))) == 3


def test_exported_commands_have_every_flag_and_survive_a_shell(
    model: Path, storage: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["tune", str(model), "--study", "s", "--trials", "2", *storage, "--json"]) == 0
    capsys.readouterr()
    assert invoke(["export", "s", *storage]) == 0
    compiled, ran = [shlex.split(line) for line in capsys.readouterr().out.splitlines()[:2]]
    names = {word.partition("=")[0] for word in compiled}
    assert {"-m", "-onnx-define-symbol", "-aic-num-cores", "-ols", "-mos"} <= names
    assert {"-multicast-weights", "-convert-to-fp16", "-stats-batchsize"} <= names
    assert {"-aic-binary-dir", "-aic-hw", "-compile-only"} <= names
    assert "-aic-hw-version=2.0" in compiled
    assert f"-m={model}" in compiled
    assert {"-a", "-S", "-t"} <= set(ran)


def test_compile_and_simulate_are_run(model: Path, asked: Json, tmp_path: Path) -> None:
    point = ["--cores", "2", "--batch-size", "4"]
    built = asked("compile", str(model), *point, "--out", str(tmp_path / "q"), "--json")
    assert built["path"].endswith("programqpc.bin")
    queue = ["--instances", "3", "--set-size", "2", "--json"]
    simulated = asked("simulate", str(tmp_path / "q"), *queue)
    ran = asked("run", str(model), *point, *queue)
    assert simulated["inferences_per_s"] == ran["inferences_per_s"] > 0
    assert simulated["latency_ms"] == ran["latency_ms"]
    assert set(ran["latency_ms"]) == LATENCY


def test_devices_are_listed_with_their_sources(asked: Json) -> None:
    text = json.dumps(asked("devices", "--json"))
    assert all(f'"{sku}"' in text for sku in ("std", "pro", "ultra", "lite", "dm2", "dm2e"))


WITH_NUMBA = """
import contextlib, io, json, sys
from configurator.cli.app import invoke
from configurator.qaic_exec.app import invoke as qaic_exec
from configurator.qaic_runner.app import invoke as qaic_runner
from configurator.qaic_util.app import invoke as qaic_util
tools = {"qaic-exec-sim": qaic_exec, "qaic-runner-sim": qaic_runner, "qaic-util-sim": qaic_util}
found = []
for line in json.loads(sys.argv[1]):
    run = tools.get(line[0])
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(line[1:]) if run else invoke(line)
    assert code == 0, line
    found.append("numba" in sys.modules)
print(json.dumps(found))
"""


def test_commands_that_do_not_simulate_leave_numba_alone(
    model: Path, storage: list[str], tmp_path: Path
) -> None:
    assert invoke(["tune", str(model), "--study", "s", "--trials", "2", *storage, "--json"]) == 0
    small, binary = ["--cores", "1", "--batch-size", "1"], str(tmp_path / "binary")
    lines = [
        ["--help"],
        ["devices"],
        ["trials", "s", *storage],
        ["export", "s", *storage],
        ["plot", "s", *storage, "--out", str(tmp_path / "plots")],
        ["compile", str(model), *small, "--out", binary, "--explain"],
        ["inspect", binary],
        ["squash", str(model), "--out", str(tmp_path / "one.onnx")],
        ["qaic-exec-sim", "-h"],
        ["qaic-runner-sim", "-h"],
        ["qaic-util-sim", "-q"],
        ["simulate", binary, "--instances", "1", "--set-size", "1"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITH_NUMBA, json.dumps(lines)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = dict(zip([line[0] for line in lines], json.loads(done.stdout), strict=True))
    assert {name for name, found in loaded.items() if found} == {"simulate"}


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from configurator.cli.app import invoke; invoke(['--help']); "
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
