"""How many inferences run, and how long: closed forms, and the engine's own longer recording."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from configurator.card_run import Amount, run_on_card
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import CALIBRATED
from tests.oracles.programs import ProgramBuilder, programs

STD = device(Sku.STD)


def a_program() -> Program:
    builder = ProgramBuilder(input_bytes=1000, output_bytes=1000)
    builder.vector(1_000_000, VectorOp.ADD)
    return builder.build()


@given(
    program=programs(max_tasks=8),
    instances=st.integers(1, 3),
    set_size=st.integers(1, 12),
    inferences=st.integers(1, 300),
)
@settings(max_examples=30, deadline=None)
def test_a_number_ends_when_a_run_that_shows_it_all_ends(
    program: Program, instances: int, set_size: int, inferences: int
) -> None:
    """Beyond the simulated part it is extrapolated; here the oracle simulates all of it."""
    options = RunOptions(instances=instances, set_size=set_size)
    ran = run_on_card(program, STD, options, Amount(inferences=inferences))
    assert ran.inferences == sum(ran.counts) == inferences
    assert max(ran.counts) - min(ran.counts) <= 1
    all_ = RunOptions(instances=instances, set_size=set_size, inferences=max(ran.counts))
    whole = SimulatorBackend(STD).steady(program, all_).recording
    end_s = float(whole.done_at[0, max(ran.counts) - 1]) / 1e12
    # Runs of other lengths see the other instances' means a little differently.
    assert ran.duration_s == pytest.approx(end_s, rel=5e-3)


@given(milliseconds=st.integers(1, 20_000), set_size=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_time_ends_asking_not_answering(milliseconds: int, set_size: int) -> None:
    """The last is asked for in time and comes a round trip later, the next would be too late."""
    seconds = milliseconds / 1e3
    options = RunOptions(instances=2, set_size=set_size)
    ran = run_on_card(a_program(), STD, options, Amount(seconds=seconds))
    assert ran.inferences == 2 * ran.counts[0]
    longest_s = max(ran.recording.round_trips_s())
    period_s = 1 / ran.recording.per_s
    assert seconds - period_s <= ran.duration_s <= seconds + longest_s + period_s
    counted = ran.asked_before(seconds)
    assert counted == ran.counts[0]
    assert ran.asked_before(seconds + 2 * period_s) - counted in (1, 2, 3)


@pytest.mark.parametrize(("instances", "set_size"), [(1, 1), (1, 10), (7, 10), (3, 4)])
def test_littles_law(instances: int, set_size: int) -> None:
    """Slots x batch / rate is the round trip and the gap after it, up to the start and the end."""
    program = a_program()
    options = RunOptions(instances=instances, set_size=set_size)
    ran = run_on_card(program, STD, options, Amount(seconds=10))
    cycle_s = instances * set_size * ran.batch_size / ran.inferences_per_s
    trips_s = ran.recording.round_trips_s()
    mean_s = sum(trips_s) / len(trips_s)
    assert cycle_s == pytest.approx(mean_s + CALIBRATED.host_gap_ns * 1e-9, rel=1e-3)


def test_each_time_the_same() -> None:
    options = RunOptions(instances=2, set_size=3)
    one, two = (run_on_card(a_program(), STD, options, Amount()) for _ in range(2))
    assert (one.duration_s, one.counts) == (two.duration_s, two.counts)
