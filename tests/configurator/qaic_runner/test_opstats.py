"""The statistics file: closed forms of small programs, and sums over a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.driver import OnnxCompiler
from compiler.options import CompileOptions
from compiler.program import Engine, Program, VectorOp
from compiler.target import Sku, device
from configurator.qaic_runner.opstats import operation_times, opstats_text
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder

STD = device(Sku.STD)
RESNET50 = Path(__file__).parents[3] / "studies" / "models" / "resnet50.onnx"
ONE = RunOptions(instances=1, set_size=2)
CLOCK_MHZ, TIMER_MHZ = 1450, 19.2


def text_of(program: Program, options: RunOptions = ONE) -> str:
    return opstats_text(operation_times(program, STD, options))


def rows_of(text: str) -> dict[tuple[str, str], list[float]]:
    """The table by core and operation: ucycles, %, pcycles, %, count, KB, the three ratios."""
    found = {}
    for line in text.split("\n\n")[0].splitlines()[1:]:
        core, *cells, detail = re.split(r"  +", line.strip())
        found[core, detail] = [float(c.rstrip("%") if c != "-" else "nan") for c in cells]
    return found


def test_one_of_each_by_hand() -> None:
    """64 rows, 32 inputs and 64 outputs are 4 blocks of 8 cycles at HMX's efficiency; 8000 adds
    go at their class's rate. Each computing task has a cost besides, the first one of an operator
    one more; a read is issued first."""
    builder = ProgramBuilder(input_bytes=100, output_bytes=100)
    read = builder.read(2_048)
    product = builder.matmul(64, 32, 64, after=(read,))
    builder.vector(8_000, VectorOp.ADD, after=(product,))
    rows = rows_of(text_of(builder.build()))
    timing = CALIBRATED
    product_cycles = float(timing.hmx_operator_cycles + timing.hmx_task_cycles)
    product_cycles += 4 * 8 * 1000 / timing.hmx_efficiency_permille
    vector_cycles = float(timing.vector_task_cycles)
    vector_cycles += 8 * timing.vector_millicycles[VectorOp.ADD]
    ucycles, share, pcycles, _, count, kb, *ratios = rows["c0", "matmul HMX TCM fp16"]
    assert pcycles == pytest.approx(product_cycles, abs=2)
    assert ucycles == pytest.approx(product_cycles * TIMER_MHZ / CLOCK_MHZ, abs=1)
    assert (count, kb) == (1, 8)
    assert ratios[1] == pytest.approx(product_cycles / 8, abs=1)
    assert ratios[2] == 0
    assert ratios[1] / ratios[0] == pytest.approx(CLOCK_MHZ / TIMER_MHZ, rel=2e-3)
    (vector,) = [row for (_, detail), row in rows.items() if detail.startswith("add HVX TCM")]
    assert vector[2] == pytest.approx(vector_cycles, abs=3)
    reading = rows["c0", "read constants DMAIssue DDR"]
    bytes_per_cycle = CALIBRATED.ddr_core_bytes_per_s / (CLOCK_MHZ * 1e6)
    assert reading[2] == pytest.approx(timing.dma_issue_cycles + 2_048 / bytes_per_cycle, abs=3)
    assert reading[5] == 2
    whole = whole_cycles(text_of(builder.build()))
    assert share == pytest.approx(100 * product_cycles / whole, abs=0.05)


def whole_cycles(text: str) -> float:
    found = re.search(r"^c0 total: \d+ ucycles, (\d+) pcycles$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_sums_of_a_network_are_those_of_its_execution() -> None:
    """Against the simulator's own busy times and rate, and the number of tasks."""
    options = CompileOptions(num_cores=2, batch_size=4, symbols=())
    program = OnnxCompiler().compile(RESNET50, options, STD)
    run = RunOptions(instances=3, set_size=4)
    text, rows = text_of(program, run), rows_of(text_of(program, run))
    assert sum(row[4] for row in rows.values()) == len(program.tasks)
    steady = SimulatorBackend(STD).steady(program, run)
    assert steady.execution is not None
    busy_s = steady.execution.busy_ps.reshape(2, len(Engine)) / 1e12
    for core in range(2):
        for engine, name in ((Engine.HMX, "HMX"), (Engine.HVX, "HVX")):
            mine = [row[2] for (c, what), row in rows.items() if c == f"c{core}" and name in what]
            cycles = busy_s[core, engine] * steady.clock_hz
            assert sum(mine) == pytest.approx(cycles, rel=1e-4, abs=len(mine))
            thread = {"HMX": "t4", "HVX": "t0"}[name]
            line = re.search(rf"^c{core} {thread} {name}: .* (\d+) pcycles", text, re.MULTILINE)
            assert line is not None
            assert float(line[1]) == pytest.approx(cycles, rel=1e-4, abs=1)
    per_s = re.search(r"^Device instance inf/s: (.*)$", text, re.MULTILINE)
    assert per_s is not None
    assert float(per_s[1]) == pytest.approx(4e12 / steady.execution.duration_ps, rel=1e-5)
    assert f"c1 Effective frequency is {steady.clock_hz / 1e6:.2f}MHz" in text
