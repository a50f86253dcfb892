"""The spans add up, follow the vendor's definitions, and agree with the moments of the run."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from configurator.card_run import Amount, run_on_card
from configurator.qaic_runner.stages import stages_of
from runtime_sim.options import RunOptions
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder, programs

STD = device(Sku.STD)
OPTIONS = st.builds(
    RunOptions,
    instances=st.integers(1, 3),
    set_size=st.integers(1, 5),
    threads_per_queue=st.integers(1, 3),
)


@given(program=programs(), options=OPTIONS)
@settings(max_examples=40, deadline=None)
def test_spans_add_up(program: Program, options: RunOptions) -> None:
    """In nanoseconds, exactly; the total against the simulator's own round trips."""
    ran = run_on_card(program, STD, options, Amount())
    found = stages_of(ran.recording)
    parts = found.enqueue + found.prepare + found.exec_total + found.finish
    assert np.array_equal(parts, found.total)
    assert np.array_equal(found.to_channel + found.to_complete, found.host_round_trip)
    waited = found.exec_total - found.submit - found.host_round_trip
    assert np.all(waited >= 0)
    told = found.device
    assert np.all(told.execution <= found.to_complete)
    spans = (found.enqueue, found.prepare, found.submit, found.to_channel, found.finish)
    assert all(np.all(span >= 0) for span in (*spans, told.input_wait, told.output_wait))
    round_trips_ns = np.array(ran.recording.round_trips_s()) * 1e9
    assert np.all(np.abs(found.total - round_trips_ns) <= 1)
    assert np.all((found.queue_depth >= 0) & (found.queue_depth < options.set_size))


@given(program=programs(), options=OPTIONS)
@settings(max_examples=40, deadline=None)
def test_a_device_executes_or_waits(program: Program, options: RunOptions) -> None:
    """Its three spans fill the time from one end to the next; a pipeline's overlap."""
    assume(len(program.stage_cores) <= 1)
    recording = run_on_card(program, STD, options, Amount()).recording
    told = stages_of(recording).device
    first = recording.warmup
    ends = recording.ended_at[0, first - 1 : first + recording.inferences]
    spans = told.execution + told.input_wait + told.output_wait
    assert np.all(np.abs(spans - np.diff(ends) / 1000) <= 1)


def test_submitting_takes_what_published_runs_show() -> None:
    """Means of 13 runs of the vendor's tutorials, in microseconds."""
    builder = ProgramBuilder(input_bytes=100, output_bytes=100)
    builder.vector(1_000, VectorOp.ADD)
    options = RunOptions(instances=1, set_size=1)
    found = stages_of(run_on_card(builder.build(), STD, options, Amount()).recording)
    assert np.all((found.submit >= 1_429) & (found.submit <= 1_776))
    assert np.all((found.to_channel >= 3_387) & (found.to_channel <= 6_294))


def test_output_waits_show_where_the_way_back_is_the_bottleneck() -> None:
    """200 MB back for a microsecond of work: the device waits for room nearly all the time."""
    builder = ProgramBuilder(input_bytes=100, output_bytes=200_000_000)
    builder.vector(1_000, VectorOp.ADD)
    recording = run_on_card(
        builder.build(), STD, RunOptions(instances=1, set_size=6), Amount()
    ).recording
    told = stages_of(recording).device
    way_back_ns = 200e6 / CALIBRATED.pcie_out_bytes_per_s * 1e9
    assert np.all(told.output_wait > 0.5 * way_back_ns)
    assert np.all(told.input_wait <= CALIBRATED.launch_ns)


def test_a_lone_inference_waits_for_its_input() -> None:
    """At set size 1 the device is idle from one output to the next input."""
    builder = ProgramBuilder(input_bytes=100, output_bytes=100)
    builder.vector(1_000, VectorOp.ADD)
    recording = run_on_card(
        builder.build(), STD, RunOptions(instances=1, set_size=1), Amount()
    ).recording
    told = stages_of(recording).device
    assert np.all(told.output_wait == 0)
    assert np.all(told.input_wait > CALIBRATED.host_gap_ns)
    assert np.all(stages_of(recording).queue_depth == 0)
