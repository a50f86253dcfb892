"""The benchmark's table at a reduced size: one model of the repository."""

from __future__ import annotations

import pytest

from runtime_sim.simulator import SimulatorBackend
from studies.bench import OTHER_POINT, POINT, STD, compiled, counted, row_of, summary, text
from studies.simulated import MODELS


def test_a_row_has_all_its_numbers() -> None:
    row = row_of(MODELS / "mobilenet_v2.onnx")
    assert min(row.tasks, row.compile_s, row.first_s, row.warm_s, row.again_s) > 0
    cold = row.cold
    spans = (cold.start_s, cold.libraries_s, cold.numba_s, cold.loops_s, cold.trial_s)
    assert min(spans) > 0
    assert sum(spans) + cold.program_s == pytest.approx(cold.total_s)
    # Plain Python runs the same source: the loops alone are some hundred times slower.
    assert row.times_plain > 2
    assert row.cold.peak_mb > 0
    assert row.model in text(row)
    assert row.model in summary([row])


def test_events_are_those_of_the_product_s_path() -> None:
    """At least an event for each task of the one execution that the last answer shows."""
    program, _ = compiled(MODELS / "resnet50.onnx")
    seen, backend = counted(program), SimulatorBackend(STD)
    backend.run(program, OTHER_POINT)
    steady = backend.steady(program, POINT)
    assert steady.execution is not None
    assert seen.merged == len(steady.execution.begun) <= len(program.tasks)
    assert seen.events > seen.merged + steady.recording.events
    assert counted(program).events == seen.events
