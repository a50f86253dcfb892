"""The explanation of a program: its sums are the program's, its lines are the layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from compiler.driver import OnnxCompiler
from compiler.options import CompileOptions
from compiler.program import Program, TaskKind
from compiler.target import Sku, device
from configurator import explain
from configurator.cli.app import invoke
from configurator.qaic_exec import metrics
from tests.oracles.programs import programs

MODELS = Path(__file__).parents[2] / "studies" / "models"


@pytest.fixture(scope="module")
def resnet() -> Program:
    options = CompileOptions(num_cores=2, batch_size=4)
    return OnnxCompiler().compile(MODELS / "resnet50.onnx", options, device(Sku.STD))


def assert_sums(program: Program) -> None:
    works = explain.layer_works(program)
    traffic = metrics.core_traffic(program)
    assert sum(work.tasks for work in works) == len(program.tasks)
    assert sum(work.hmx_macs for work in works) == metrics.mac_count(program)
    assert sum(w.read_constant_bytes for w in works) == sum(t.read_constants for t in traffic)
    assert sum(w.read_constant_bytes + w.read_activation_bytes for w in works) == sum(
        t.read for t in traffic
    )
    assert sum(work.written_bytes for work in works) == sum(t.written for t in traffic)
    assert sum(work.sent_bytes for work in works) == sum(t.multicast_written for t in traffic)


@given(program=programs())
def test_layers_and_cores_share_the_same_work(program: Program) -> None:
    assert_sums(program)


def test_a_real_program_adds_up(resnet: Program) -> None:
    """ResNet-50 does 4.09e9 MACs a sample (torchvision's table)."""
    assert_sums(resnet)
    works = explain.layer_works(resnet)
    assert sum(work.layer.macs for work in works) / 4 == pytest.approx(4.09e9, rel=0.005)
    assert max(work.layer.vtcm_bytes for work in works) <= resnet.memory.vtcm_peak_bytes
    weights = sum(work.layer.weight_bytes for work in works)
    assert sum(work.read_constant_bytes for work in works) <= weights


def test_a_model_that_stays_in_vtcm_reads_its_input_only() -> None:
    """MobileNetV2 has 3.5 million weights: 7 MB over four cores. It does 3.0e8 MACs a sample.

    Its depthwise convolutions run on the tensor units as dense ones, which do more.
    """
    options = CompileOptions(num_cores=4, batch_size=1)
    program = OnnxCompiler().compile(MODELS / "mobilenet_v2.onnx", options, device(Sku.STD))
    works = explain.layer_works(program)
    assert sum(work.layer.macs for work in works) == pytest.approx(3.0e8, rel=0.005)
    assert all(work.hmx_macs >= work.layer.macs for work in works)
    assert sum(work.read_constant_bytes for work in works) == 0
    assert sum(work.read_activation_bytes for work in works) == program.input_bytes
    assert sum(work.written_bytes for work in works) == program.output_bytes


def test_text_has_a_line_for_each_layer(resnet: Program) -> None:
    lines = explain.text(resnet).splitlines()
    assert len(lines) == len(resnet.layers) + 2
    assert lines[0].split()[:4] == ["layer", "op", "shape", "split"]
    for line, layer in zip(lines[1:], resnet.layers, strict=False):
        assert line.startswith(layer.name)
        assert line.endswith(layer.why)
    assert lines[-1].startswith("total")


def test_the_command_explains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], resnet: Program
) -> None:
    line = f"compile {MODELS / 'resnet50.onnx'} --cores 2 --batch-size 4 --out {tmp_path}"
    assert invoke([*line.split(), "--explain"]) == 0
    assert explain.text(resnet) in capsys.readouterr().out
    assert invoke([*line.split(), "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["layers"] == len(found["explain"]["layers"]) == len(resnet.layers)
    assert found["explain"] == explain.document(resnet)
    kinds = resnet.tasks.kind
    reads = int(resnet.tasks.w0[kinds == TaskKind.READ].sum())
    total = found["explain"]["total"]
    assert total["ddr_read_constant_bytes"] + total["ddr_read_activation_bytes"] == reads
