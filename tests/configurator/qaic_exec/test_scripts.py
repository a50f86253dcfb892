"""Whole command lines: those of published scripts and of our own export, and what goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import qpc
from compiler.options import CompileOptions
from compiler.target import Sku
from configurator import export
from configurator.cli.app import invoke as configurator
from configurator.qaic_exec.app import FAILED, OK, invoke
from configurator.qaic_exec.flags import BY_NAME
from configurator.vendor_cli.flag import Effect
from tests.compiler.frontend.files import written
from tests.configurator import view_rows
from tests.configurator.qaic_exec.test_command_line import OPTIONS, Option, keeps_one_value

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "studies" / "models"

TINY_BODY = (
    "m (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}> "
    "{ h = MatMul(x, w) y = Relu(h) }"
)

# The tutorials' lines, with their flags in their order.
COMMON = (
    "-v -aic-hw -aic-hw-version=2.0 -multicast-weights -convert-to-fp16 -compile-only "
    "-stats-batchsize={bs} "
)
TUTORIAL = [
    ("resnet50", "-onnx-define-symbol=batch_size,4 -aic-num-cores=2 -mos=1 -ols=2", 4),
    ("resnet50", "-onnx-define-symbol=batch_size,1 -aic-num-cores=7 -mos=1 -ols=1", 1),
    (
        "bert_base_qa",
        "-onnx-define-symbol=batch_size,8 -onnx-define-symbol=seq_len,128 -aic-num-cores=2 "
        "-ols=1 -mos=1 -aic-perf-metrics -aic-profiling-type=stats -aic-profiling-type=trace "
        "-aic-profiling-type=latency",
        8,
    ),
    (
        "resnet50",
        "-onnx-define-symbol=batch_size,2 -aic-num-cores=14 -mos=1,7 -sdp-cluster-sizes=7,7 "
        "-aic-depth-first-mem=16 -aic-enable-depth-first -use-producer-dma=1 "
        "-aic-pmu-recipe=KernelUtil",
        2,
    ),
    (
        "bert_base_qa",
        "-onnx-define-symbol=batch_size,1 -onnx-define-symbol=seq_len,32 -aic-num-cores=16 "
        "-mos=1 -mxfp6-matmul -retained-state -custom-IO-list-file=io.yaml -aic-perf-warnings "
        "-aic-enable-depth-first -allocator-dealloc-delay=2 -size-split-granularity=1536 "
        "-vtcm-working-set-limit-ratio=0.5 -stats-level=70 -compile-threads=4",
        1,
    ),
]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return written(tmp_path, TINY_BODY)


@pytest.mark.parametrize(("model", "flags", "batch_size"), TUTORIAL)
def test_published_lines_run_unchanged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    model: str,
    flags: str,
    batch_size: int,
) -> None:
    out = tmp_path / "qpc"
    line = f"-m={MODELS / model}.onnx -aic-binary-dir={out} " + COMMON.format(bs=batch_size)
    assert invoke((line + flags).split()) == OK
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert said.err == ""
    assert lines[0] == f"Reading ONNX Model from {MODELS / model}.onnx"
    started = next(at for at, text in enumerate(lines) if text.startswith("Compile started ..."))
    assert lines[started + 1] == "Compiling model with FP16 precision."
    assert lines[-1] == f"Generated binary is present at {out}"
    program = qpc.read(out)
    assert program.options.batch_size == batch_size
    assert program.options.multicast_weights
    assert ("AIC HMX MAC estimate" in said.out) == ("-aic-perf-metrics" in flags)


@pytest.mark.parametrize("multicast", [True, False])
def test_what_export_prints_runs_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, multicast: bool
) -> None:
    """Also through a shell: only the path of the program is swapped."""
    shutil.copytree(MODELS, tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    options = CompileOptions(num_cores=2, batch_size=4, ols=1, mos=1, multicast_weights=multicast)
    study = view_rows.study(batch_symbol="batch_size")
    argv = export.compile_argv(study, options, "the qpc")
    assert argv[0] == export.COMPILER_PATH
    assert invoke(argv[1:]) == OK
    assert qpc.read(tmp_path / "the qpc").options == options


def test_a_script_with_the_path_swapped(tmp_path: Path, tiny: Path) -> None:
    tool = tmp_path / "qaic-exec"
    code = "from configurator.qaic_exec.app import main; main()"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    tool.chmod(0o755)
    script = (
        f"set -e\nfor bs in 1 8; do\n  {tool} -m={tiny} -onnx-define-symbol=batch,$bs "
        "-aic-num-cores 2 -convert-to-fp16 -aic-hw -aic-binary-dir=qpc-$bs -compile-only\ndone\n"
        f"{tool} -nonsense || echo code $?\n"
    )
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "code 255"
    assert done.stderr == (
        "Invalid option -nonsense. Use -h, -help, or --help for list of options.\n"
    )
    assert [qpc.read(tmp_path / f"qpc-{bs}").options.batch_size for bs in (1, 8)] == [1, 8]


def test_without_compile_only_it_also_executes(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rate is inferences over time, times the batch that is asked for."""
    line = f"-m={tiny} -onnx-define-symbol=batch,8 -convert-to-fp16 -stats-batchsize=8 "
    assert invoke((line + "-aic-profiling-type=latency -time-passes").split()) == OK
    out = capsys.readouterr().out
    found = re.search(
        r"^ ---- Stats ----\nInferenceCnt (\d+) TotalDuration (\d+)us BatchSize 8 Inf/Sec "
        r"(\d+\.\d{3})\nDevice Performance:\nMetric, .*\nExecTimeUs, +(\d+\.\d{3}),",
        out,
        re.MULTILINE,
    )
    assert found is not None
    count, duration_us, rate, exec_us = map(float, found.groups())
    # The duration is printed in whole microseconds.
    assert rate == pytest.approx(count * 8e6 / duration_us, rel=0.5 / duration_us)
    assert 0 < exec_us <= duration_us + 0.5
    assert re.search(r"^total +\d+\.\d{3}$", out, re.MULTILINE)


def test_several_instances_execute_side_by_side(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"-m={tiny} -onnx-define-symbol=batch,1 -convert-to-fp16 -aic-num-of-instances=3"
    assert invoke(line.split()) == OK
    assert "InferenceCnt 3 " in capsys.readouterr().out
    assert invoke(line.replace("=3", "=99").split()) == FAILED
    assert "99 instances = 99, std has 14 NSPs" in capsys.readouterr().err


def test_specializations_share_one_container(
    tmp_path: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "s.json"
    spec.write_text(json.dumps({"specializations": [{"batch": "1"}, {"batch": "4"}]}))
    out = tmp_path / "qpc"
    line = f"-m={tiny} -network-specialization-config={spec} -convert-to-fp16 -compile-only"
    assert invoke([*line.split(), f"-aic-binary-dir={out}", "-ddr-stats"]) == OK
    said = capsys.readouterr().out
    assert re.findall(r"^Specialization (.*):$", said, re.MULTILINE) == ["batch=1", "batch=4"]
    assert qpc.program_count(out) == 2
    assert [qpc.read(out, number).options.batch_size for number in range(2)] == [1, 4]
    assert qpc.read(out) != qpc.read(out, 1)
    for number, code in ((0, 0), (1, 0), (2, 2)):
        simulate = ["simulate", str(out), "--instances", "1", "--specialization", str(number)]
        assert configurator(simulate) == code
    capsys.readouterr()


def test_verbose_notes_and_warnings(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"-m={tiny} -onnx-define-symbol=batch,1 -compile-only -aic-hw -io-crc"
    assert invoke(line.split()) == OK
    quiet = capsys.readouterr().out
    assert "NOTE" not in quiet
    assert "WARNING: -convert-to-fp16 is not given" in quiet
    assert "WARNING: nothing is written" in quiet
    assert invoke([*line.split(), "-vv", "-convert-to-fp16"]) == OK
    loud = capsys.readouterr().out
    assert "NOTE: without effect here: -aic-hw, -io-crc\n" in loud
    assert "-convert-to-fp16" not in loud


def test_constants_that_fp16_loses_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "m (float[1, 2] x) => (float[1, 2] y) <float[2] c = {1e-9, 70000}> { y = Add(x, c) }"
    assert invoke([f"-m={written(tmp_path, body)}", "-convert-to-fp16", "-compile-only"]) == OK
    out = capsys.readouterr().out
    assert "1 of 2 values underflow to 0, 1 of 2 values overflow, clipped to 65504 in fp16" in out


def test_the_custom_io_template(
    tmp_path: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "io.yaml"
    line = f"-m={tiny} -onnx-define-symbol=batch,1 -dump-custom-IO-config-template={out}"
    assert invoke(line.split()) == OK
    assert re.findall(r"IOName: (\w+)\n +Precision: (\w+)", out.read_text()) == [
        ("x", "float32"),
        ("y", "float32"),
    ]
    assert capsys.readouterr().out.splitlines()[-1].endswith(str(out))


def test_supported_operators(capsys: pytest.CaptureFixture[str]) -> None:
    """Opsets as in ONNX's changelog: Gelu came with 20, Upsample went with 10."""
    assert invoke(["-operators-supported=onnx"]) == OK
    listed = [line.split(None, 2) for line in capsys.readouterr().out.splitlines()]
    assert listed[0] == ["operator", "domain", "opsets"]
    found = {name: (domain, opsets) for name, domain, opsets in listed[1:]}
    newest = onnx.defs.onnx_opset_version()
    assert found["Conv"] == ("ai.onnx", f"7 to {newest}")
    assert found["Gelu"] == ("ai.onnx", f"20 to {newest}")
    assert found["Upsample"] == ("ai.onnx", "7 to 9")
    assert not any(domain == "aic" for domain, _ in found.values())
    assert invoke(["-operators-supported=tensorflow"]) == FAILED
    assert "only ONNX" in capsys.readouterr().err


WRONG = [
    ("-compile-only", "QAIC_ERROR: no model is given"),
    ("-m=none.onnx -compile-only", "QAIC_ERROR: .*none.onnx"),
    ("-m=. -compile-only", "QAIC_ERROR: .*"),
    ("-m={tiny} -compile-only", "QAIC_ERROR: the batch of the model is the symbol batch"),
    ("-m={tiny} {b} -aic-num-cores=17", "QAIC_ERROR: cores is 17, pro has 16"),
    (
        "-m={tiny} {b} -aic-num-cores=2 -sdp-cluster-sizes=1,1 -mos=1,1,1",
        "QAIC_ERROR: mos is given for 3 clusters, there are 2",
    ),
    ("-m={tiny} {b} -sdp-cluster-sizes=7,7", "QAIC_ERROR: cluster sizes"),
    ("-m={tiny} {b} -ols=0", "QAIC_ERROR: -ols=0: must be 1 or more"),
    ("-m={tiny} {b} --ols=1", "Invalid option --ols=1. Use -h"),
    ("-m={tiny} {b} -mdts-mos=2", "QAIC_ERROR: -mdts-mos: a network runs on one device"),
    ("{tiny}", "Invalid option .*model.onnx. Use -h"),
    ("-m={tiny} {b} -network-specialization-config=none.json", "QAIC_ERROR: .*none.json"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_failures_are_one_line_and_leave_nothing(
    tmp_path: Path,
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line.format(tiny=tiny, b="-onnx-define-symbol=batch,1 -convert-to-fp16").split()
    assert invoke([*words, "-aic-binary-dir=out"]) == FAILED
    err = capsys.readouterr().err
    assert re.match(said, err), err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


# What names a file, ends at once, or says the shapes in another way.
NOT_DRAWN = (
    "-m",
    "-h",
    "-u",
    "-operators-supported",
    "-model-input",
    "-onnx-define-symbol",
    "-batchsize",
)
APPLIED = [
    (name, value)
    for name, value in OPTIONS
    if BY_NAME[name].effect is not Effect.REFUSED
    and BY_NAME[name].name not in NOT_DRAWN
    and not (value or "").startswith(("/", "..", "a."))
]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=st.lists(st.sampled_from(APPLIED), max_size=12).map(keeps_one_value))
def test_any_legal_line_compiles_or_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[Option]
) -> None:
    model = written(tmp_path, TINY_BODY)
    shutil.rmtree(tmp_path / "qpc", ignore_errors=True)
    words = [name if value is None else f"{name}={value}" for name, value in options]
    fixed = [f"-m={model}", "-onnx-define-symbol=batch,8", f"-aic-binary-dir={tmp_path / 'qpc'}"]
    code = invoke([*words, *fixed])
    said = capsys.readouterr()
    if code == OK:
        assert said.err == ""
        assert qpc.read(tmp_path / "qpc").options.batch_size == 8
    else:
        assert code == FAILED
        assert said.err.startswith("QAIC_ERROR: ")
        assert said.err.count("\n") == 1
        assert not (tmp_path / "qpc").exists() or "instances" in said.err


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    line = f"-m={tiny} -onnx-define-symbol=batch,1 -convert-to-fp16 -aic-binary-dir={taken}"
    assert invoke([*line.split(), "-compile-only"]) == FAILED
    said = capsys.readouterr()
    assert said.err.startswith("QAIC_ERROR: cannot write")
    assert "Generated binary" not in said.out
    assert taken.read_text() == "a file"


def test_the_card_may_be_named(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIC_SKU", "ultra")
    line = f"-m={tiny} -onnx-define-symbol=batch,1 -convert-to-fp16 -compile-only"
    assert invoke([*line.split(), f"-aic-binary-dir={tmp_path / 'q'}"]) == OK
    assert qpc.read(tmp_path / "q").sku is Sku.ULTRA


LOADED = """
import json, sys
from configurator.qaic_exec.app import invoke
code = invoke(sys.argv[1:])
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("line", ["-h", "--usage", "-nonsense", "-compile-only -ols=x"])
def test_help_and_usage_faults_load_no_heavy_library(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == (OK if line in ("-h", "--usage") else FAILED)
    heavy = {"onnx", "numba", "numpy", "optuna", "pandas", "sqlalchemy", "matplotlib", "typer"}
    assert heavy.isdisjoint(modules)


def test_a_reader_that_leaves_is_no_failure() -> None:
    code = "from configurator.qaic_exec.app import main; main()"
    line = f"'{sys.executable}' -c '{code}' -h | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == ["0"]
    assert done.stderr == ""


def test_an_interruption_ends_quietly(tmp_path: Path) -> None:
    out = tmp_path / "qpc"
    code = (
        "import os, signal\n"
        "from configurator.qaic_exec import app, compiling\n"
        "compiling.qpc.write = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "app.main()\n"
    )
    line = (
        f"-m={written(tmp_path, TINY_BODY)} -onnx-define-symbol=batch,1 -convert-to-fp16 "
        f"-compile-only -aic-binary-dir={out}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert not out.exists()
