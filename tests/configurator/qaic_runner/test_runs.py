"""Whole command lines: what consumers of the real tool's output read from ours, and what is wrong.

The oracles: the printed line's own arithmetic, Little's law, onnxruntime for values.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler import qpc
from compiler.options import CompileOptions
from configurator import export
from configurator.qaic_exec.app import invoke as qaic_exec
from configurator.qaic_runner.app import FAILED, OK, invoke
from configurator.records import Candidate
from runtime_sim.options import RunOptions
from runtime_sim.timing import CALIBRATED
from tests.compiler.frontend import files

ROOT = Path(__file__).parents[3]
RESNET50 = ROOT / "studies" / "models" / "resnet50.onnx"

BODY = (
    "m (float[batch, 4] x, int64[batch, 1] at) => (float[batch, 3] y, int64[batch, 1] z) "
    "<float[4, 3] w = {1, 2, 3, -4, 5, -6, 7, 8, 9, -1, -2, 0.5}> "
    "{ h = MatMul(x, w) y = Relu(h) z = Add(at, at) }"
)

STATS = re.compile(
    r"^ ---- Stats ----\nInferenceCnt (\d+) TotalDuration (\d+)us BatchSize (\d+) Inf/Sec "
    r"(\d+\.\d{3})$",
    re.MULTILINE,
)
VENDOR_COLUMNS = [
    *("hostRoundTrip", "enqTime", "preProcTime", "submitTime", "execTotal", "exectoVc"),
    *("execToComplete", "postProc", "totalRoundtripTime"),
]
DEVICE_COLUMNS = ["devInfPerSec", "devExec", "devInWaitTime", "devOutWaitTime"]

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def resnet50(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorials' best point, profiled."""
    out = tmp_path_factory.mktemp("resnet50")
    line = (
        f"-m={RESNET50} -onnx-define-symbol=batch_size,4 -aic-num-cores=2 -ols=2 -mos=1 "
        f"-convert-to-fp16 -compile-only -aic-profiling-type=latency -aic-binary-dir={out}"
    )
    assert qaic_exec(line.split()) == OK
    return out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of two inputs and outputs, and its model beside it."""
    out = tmp_path_factory.mktemp("tiny")
    proto = files.model_of(BODY)
    # No name that ONNX's text form knows.
    proto.graph.output[1].name = proto.graph.node[2].output[0] = "a/z"
    model = files.saved(out, proto)
    line = f"-m={model} -onnx-define-symbol=batch,2 -convert-to-fp16 -compile-only"
    assert qaic_exec([*line.split(), f"-aic-binary-dir={out}"]) == OK
    return out


def printed(capsys: Said, *arguments: object) -> str:
    assert invoke([str(argument) for argument in arguments]) == OK
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def refused(capsys: Said, *arguments: object) -> str:
    assert invoke([str(argument) for argument in arguments]) == FAILED
    said = capsys.readouterr()
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1
    assert "Inf/Sec" not in said.out
    return said.err


def throughput(out: str) -> float:
    """As the published sweep scripts read it."""
    last = [line for line in out.splitlines() if "Inf/Sec" in line][-1]
    return float(last.split()[-1])


def table(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """As the latency tool reads it: four lines skipped, names stripped of blanks and of Us."""
    text = "\n".join(path.read_text().splitlines()[4:])
    names, *rows = csv.reader(io.StringIO(text))
    return [name.strip().removesuffix("Us") for name in names], np.array(rows, dtype=float)


def test_the_line_of_the_tutorials(resnet50: Path, tmp_path: Path, capsys: Said) -> None:
    out = printed(
        capsys,
        *("-t", resnet50, "-a", 7, "-S", 10, "-T", 4, "-d", 0, "--time", 20),
        *("--aic-profiling-type", "latency", "--aic-profiling-start-iter", 100),
        *("--aic-profiling-num-samples", 99999, f"--aic-profiling-out-dir={tmp_path}"),
    )
    assert out.splitlines()[0] == "Using bounded random inputs"
    found = STATS.search(out)
    assert found is not None
    count, duration_us, batch = map(int, found.groups()[:3])
    rate = float(found[4])
    assert batch == 4
    assert rate == throughput(out) == round(count * 1e6 / duration_us * batch, 3)
    assert 20e6 < duration_us < 20.5e6
    after = out[found.end() :].splitlines()
    written = [f"Writing file:{tmp_path}/aic-profiling-program-{n}-latency.txt" for n in range(7)]
    assert after[-7:] == written
    total = 0
    for activation in range(7):
        name = f"aic-profiling-program-{activation}-latency.txt"
        names, rows = table(tmp_path / name)
        assert names[:3] == ["Sample", "queueDepth", "numInfInQueue"]
        assert names[3:] == [*DEVICE_COLUMNS, *VENDOR_COLUMNS]
        assert rows[0, 0] == 100
        assert np.all(np.diff(rows[:, 0]) == 1)
        total += len(rows) + 100
        # Little's law: slots x batch / rate.
        mean_us = rows[:, -1].mean()
        assert 7 * 10 * batch / rate * 1e6 == pytest.approx(mean_us, rel=0.01)
        # What the sweep scripts call the execution total.
        third = rows[:, -3]
        assert names[-3] == "execToComplete"
        assert np.all((third < rows[:, -1]) & (third > 0.9 * rows[:, -1]))
    assert total == count


def test_printed_spans_add_up_to_the_last_digit(
    resnet50: Path, tmp_path: Path, capsys: Said
) -> None:
    printed(
        capsys,
        *("-t", resnet50, "-a", 2, "-S", 3, "-n", 200, "--aic-profiling-type=latency"),
        *("--aic-profiling-num-samples=200", "--aic-profiling-out-dir", tmp_path),
    )
    names, rows = table(tmp_path / "aic-profiling-program-0-latency.txt")
    assert len(rows) == 100
    ns = {name: np.rint(rows[:, at] * 1e3) for at, name in enumerate(names)}
    seen = ns["enqTime"] + ns["preProcTime"] + ns["execTotal"] + ns["postProc"]
    assert np.array_equal(seen, ns["totalRoundtripTime"])
    assert np.array_equal(ns["exectoVc"] + ns["execToComplete"], ns["hostRoundTrip"])
    assert np.all(ns["hostRoundTrip"] + ns["submitTime"] <= ns["execTotal"])
    per_s = rows[:, names.index("devInfPerSec")]
    assert per_s == pytest.approx(4e9 / ns["devExec"], rel=1e-5)


def test_at_set_size_1_the_gap_is_between_round_trips(
    resnet50: Path, tmp_path: Path, capsys: Said
) -> None:
    out = printed(
        capsys,
        *("-t", resnet50, "-S", 1, "--time", 10, "--aic-profiling-type=latency"),
        *("--aic-profiling-num-samples=50", "--aic-profiling-out-dir", tmp_path),
    )
    _, rows = table(tmp_path / "aic-profiling-program-0-latency.txt")
    cycle_us = 4 / throughput(out) * 1e6
    assert cycle_us == pytest.approx(rows[:, -1].mean() + CALIBRATED.host_gap_ns / 1e3, rel=1e-4)


def test_the_device_tells_only_where_it_was_compiled_to(
    resnet50: Path, tiny: Path, tmp_path: Path, capsys: Said
) -> None:
    flags = ("--aic-profiling-type=latency", f"--aic-profiling-out-dir={tmp_path}")
    out = printed(capsys, "-t", resnet50, "-n", 400, *flags)
    block = out[out.index("Device Performance:") :].splitlines()
    assert re.split(r",\s+", block[1]) == ["Metric", "Avg", "Min", "Max", "Std"]
    told = {}
    for row in block[2:5]:
        name, *cells = re.split(r",\s*", row)
        assert all(re.fullmatch(r"\d+\.\d{3}", cell) for cell in cells)
        mean, least, most, _ = map(float, cells)
        assert least <= mean <= most
        told[name] = mean
    assert list(told) == ["ExecTimeUs", "InputWaitTimeUs", "OutputWaitTimeUs"]
    # A device that never idles: its spans fill the time between results, one activation alone.
    assert 4e6 / throughput(out) == pytest.approx(sum(told.values()), rel=0.02)
    plain = printed(capsys, "-t", tiny, *flags)
    assert "Device Performance" not in plain
    assert f"Deleting previous file:{tmp_path}/aic-profiling-program-0-latency.txt" in plain
    names, rows = table(tmp_path / "aic-profiling-program-0-latency.txt")
    assert names[3:] == VENDOR_COLUMNS
    assert len(rows) == 1


def test_what_export_prints_runs_unchanged(tiny: Path, capsys: Said) -> None:
    run = RunOptions(instances=3, set_size=6, threads_per_queue=2)
    candidate = Candidate(CompileOptions(num_cores=1, batch_size=2), run)
    argv = export.run_argv(candidate, str(tiny))
    assert argv[0] == export.RUNNER_PATH
    found = STATS.search(printed(capsys, *argv[1:]))
    assert found is not None
    assert int(found[2]) >= export.RUN_TIME_S * 1e6


@pytest.mark.parametrize(("activations", "inferences"), [(1, 1), (7, 40), (3, 5000), (14, 5000)])
def test_a_number_is_counted_over_all_activations(
    tiny: Path, capsys: Said, activations: int, inferences: int
) -> None:
    out = printed(capsys, "-t", tiny, "-a", activations, "-n", inferences)
    assert f"InferenceCnt {inferences} " in out
    assert "InferenceCnt 40 " in printed(capsys, "-t", tiny)


def test_statistics_are_written_of_a_profiled_network(
    resnet50: Path, tiny: Path, tmp_path: Path, capsys: Said
) -> None:
    flags = (
        *("--aic-profiling-type", "raw_device_stats", "--aic-profiling-type=latency"),
        *(f"--aic-profiling-out-dir={tmp_path}", "--aic-profiling-start-iter=3"),
    )
    out = printed(capsys, "-t", resnet50, "-a", 2, "-n", 9, *flags)
    files_ = [f"aic-profiling-program-0-activation-{number}-inf-3.txt" for number in range(2)]
    assert out.splitlines()[-2:] == [f"Writing file:{tmp_path}/{name}" for name in files_]
    text = (tmp_path / files_[0]).read_text()
    assert text == (tmp_path / files_[1]).read_text()
    # The file's rate is that of the block: one over an execution.
    mean_us = float(re.findall(r"ExecTimeUs, +([\d.]+),", out)[0])
    per_s = float(re.findall(r"Device instance batch/s: \(1/[\d.]+\): ([\d.]+)", text)[0])
    assert per_s == pytest.approx(1e6 / mean_us, rel=1e-3)
    out = printed(capsys, "-t", tiny, "--aic-profiling-type=stats")
    assert "WARNING: no statistics are written" in out


def test_streams_are_taken_by_time(resnet50: Path, tmp_path: Path, capsys: Said) -> None:
    common = ("-t", resnet50, "-S", 2, "--time", 3, f"--aic-profiling-out-dir={tmp_path}")
    kind = "--aic-profiling-type=latency_stream"
    path = tmp_path / "aic-profiling-program-0-latency.txt"
    out = printed(capsys, *common, kind)
    _, all_rows = table(path)
    assert f"InferenceCnt {len(all_rows)} " in out
    rates = ("--aic-profiling-sampling-rate=fourth", "--aic-profiling-start-delay=1000")
    printed(capsys, *common, kind, *rates, "--aic-profiling-duration=1000")
    _, rows = table(path)
    assert np.all(np.diff(rows[:, 0]) == 4)
    assert len(rows) == pytest.approx(len(all_rows) / 12, rel=0.02)
    assert rows[0, 0] == pytest.approx(len(all_rows) / 3, rel=0.02)


def raw_inputs(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Small whole numbers: fp16 holds every product and sum, so that values are exact."""
    x = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
    feeds: dict[str, NDArray[np.generic]] = {"x": x, "at": np.array([[5], [-7]], np.int64)}
    for name, value in feeds.items():
        (folder / f"{name}.raw").write_bytes(value.tobytes())
    return feeds


def test_outputs_equal_onnxruntime_s(tiny: Path, tmp_path: Path, capsys: Said) -> None:
    feeds = raw_inputs(tmp_path)
    out = printed(
        capsys,
        *("-t", tiny, "-i", tmp_path / "x.raw", "--input-file", tmp_path / "at.raw", "-a", 2),
        *("-n", 12, "--write-output-dir", tmp_path, "--write-output-start-iter", 4),
        *("--write-output-num-samples", 10),
    )
    assert out.startswith(f"Input file: {tmp_path}/x.raw\nInput file: {tmp_path}/at.raw\n --")
    truth = files.run(tiny / "model.onnx", feeds)
    names = [
        f"{name}-activation-{activation}-inf-{number}.bin"
        for activation in range(2)
        for number in (4, 5)
        for name in ("y", "a_z")
    ]
    assert out.splitlines()[-8:] == [f"Writing file:{tmp_path}/{name}" for name in names]
    assert sorted(path.name for path in tmp_path.glob("*.bin")) == sorted(names)
    for name in names:
        wanted = truth["y"] if name.startswith("y") else truth["a/z"]
        assert (tmp_path / name).read_bytes() == wanted.tobytes()


def test_outputs_are_compared_byte_by_byte(tiny: Path, tmp_path: Path, capsys: Said) -> None:
    truth = files.run(tiny / "model.onnx", raw_inputs(tmp_path))
    for name in ("y", "z"):
        value = truth["y" if name == "y" else "a/z"]
        (tmp_path / f"{name}.out").write_bytes(value.tobytes())
    common = ("-t", tiny, "-i", tmp_path / "x.raw", "-i", tmp_path / "at.raw", "-v")
    compared = ("-o", tmp_path / "y.out", "-o", tmp_path / "z.out")
    out = printed(capsys, *common, *compared)
    assert out.splitlines()[-2:] == [
        "Inference run completed successfully!",
        "Output validation successful!",
    ]
    assert f"Device: ID 0\nTest path: {tiny}\n" in out
    content = bytearray((tmp_path / "z.out").read_bytes())
    content[9] ^= 1
    (tmp_path / "z.out").write_bytes(content)
    assert invoke([str(argument) for argument in (*common, *compared)]) == FAILED
    assert "output a/z differs" in (said := capsys.readouterr().err)
    assert "from byte 9 on" in said


def test_random_inputs_repeat(tiny: Path, tmp_path: Path, capsys: Said) -> None:
    contents = []
    for extra in ((), (), ("--unbound-random",)):
        printed(capsys, "-t", tiny, "--write-output-dir", tmp_path, *extra)
        contents.append((tmp_path / "a_z-activation-0-inf-0.bin").read_bytes())
    assert contents[0] == contents[1] != contents[2]
    assert set(np.frombuffer(contents[0], np.int64)) <= {0, 2}


def test_nothing_is_written_unless_asked(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    printed(capsys, "-t", tiny)
    assert list(tmp_path.iterdir()) == []


def test_a_container_without_values_still_runs(tiny: Path, tmp_path: Path, capsys: Said) -> None:
    qpc.write(qpc.read(tiny), tmp_path)
    assert throughput(printed(capsys, "-t", tmp_path)) > 0
    asked = refused(capsys, "-t", tmp_path, "--write-output-dir", tmp_path)
    assert "can be simulated but not executed" in asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-a 15", "15 instances = 15, std has 14 NSPs"),
        ("-i x.raw", "1 input files, the network has 2: x, at"),
        ("-i x.raw -i x.raw", "has 32 bytes, input at (int64 2x1) needs 16"),
        ("-i x.raw -i gone.raw", "gone.raw: No such file"),
        ("-i x.raw -i .", "Is a directory"),
        ("-o x.raw", "1 output files, the network has 2: y, a/z"),
        ("--aic-profiling-type trace", "--aic-profiling-type=trace: "),
        ("--aic-profiling-out-dir gone", "gone: is no folder"),
        ("--write-output-dir gone", "gone: is no folder"),
        ("-D 0:1", "names 2 cards"),
        ("-S 513", "1 to 512"),
        ("-n 0", "-n=0: must be 1 or more"),
        ("--aic-batch-input-directory .", "all inferences run on one input"),
        (
            "--aic-profiling-type=latency -n 9999999 --aic-profiling-num-samples 9999999",
            "9,999,999 inferences of an activation would be measured",
        ),
        ("--frobnicate", "unrecognized option '--frobnicate'"),
        ("extra", "unrecognized option 'extra'"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_1(
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
    arguments: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    raw_inputs(tmp_path)
    assert said in refused(capsys, "-t", tiny, *arguments.split())


def test_containers_that_cannot_be(tmp_path: Path, tiny: Path, capsys: Said) -> None:
    assert "no network is given" in refused(capsys)
    assert "gone" in refused(capsys, "-t", tmp_path / "gone")
    path = tmp_path / qpc.FILE_NAME
    content = bytearray((tiny / qpc.FILE_NAME).read_bytes())
    path.write_bytes(content[: len(content) // 2])
    assert qpc.FILE_NAME in refused(capsys, "-t", tmp_path)
    path.write_bytes(b"not a container")
    assert qpc.FILE_NAME in refused(capsys, "-t", tmp_path)


def test_the_card_can_be_named(tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv("AIC_SKU", "pro")
    assert "the program is for std, the device is pro" in refused(capsys, "-t", tiny)
    monkeypatch.setenv("AIC_SKU", "none")
    assert "AIC_SKU=none: unknown card" in refused(capsys, "-t", tiny)
    monkeypatch.setenv("AIC_SKU", "std")
    printed(capsys, "-t", tiny)


def test_a_script_with_the_path_swapped(tiny: Path, tmp_path: Path) -> None:
    """As scripts do it: the tool in a shell, its exit code, its last line through a pipe."""
    tool = tmp_path / "qaic-runner"
    code = "from configurator.qaic_runner.app import main; main()"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    tool.chmod(0o755)
    script = (
        f"{tool} -t {tiny} -a 3 -S 4 --time 2 | grep Inf/Sec | tail -1 | awk '{{print $NF}}'\n"
        f"{tool} -t gone; echo code $?\n{tool} -h | head -1\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert float(lines[0]) > 0
    assert lines[1] == "code 1"
    assert lines[2].startswith("usage: qaic-runner-sim")
    assert done.stderr == "qaic-runner-sim: cannot read gone: No such file or directory\n"
