"""Which trial is better: ties by hand, and properties over all rows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator import objective
from configurator.records import TrialRow, Workflow
from runtime_sim.measurement import Measurement
from tests.configurator import view_rows

THROUGHPUT, LATENCY = Workflow.THROUGHPUT, Workflow.LATENCY


def row(
    number: int, rate: float, latency_s: float, *, cores: int = 2, set_size: int = 10
) -> TrialRow:
    asked = view_rows.candidate(cores=cores, instances=1, batch_size=1, set_size=set_size)
    return view_rows.complete(number, asked, rate, latency_s)


def measured(found: TrialRow) -> Measurement:
    assert found.measurement is not None
    return found.measurement


def numbers(rows: tuple[TrialRow, ...]) -> list[int]:
    return [found.number for found in rows]


def test_scores_are_samples_per_second_and_negative_latency() -> None:
    found = view_rows.complete(0, view_rows.candidate(batch_size=4), 6300.0, 0.044)
    assert objective.score(THROUGHPUT, measured(found)) == pytest.approx(6300.0)
    assert objective.score(LATENCY, measured(found)) == -0.044


def test_a_clear_lead_beats_every_tie_breaker() -> None:
    rows = (row(0, 1000.0, 0.001, cores=1, set_size=1), row(1, 1002.0, 0.9, cores=14))
    assert numbers(objective.ranked(rows, THROUGHPUT)) == [1, 0]


def test_tied_throughputs_go_by_latency_then_cores_then_set_size_then_number() -> None:
    rows = (
        row(0, 1000.0, 0.02, cores=2, set_size=3),
        row(1, 999.1, 0.01, cores=4, set_size=3),
        row(2, 999.5, 0.01, cores=2, set_size=5),
        row(3, 999.2, 0.01, cores=2, set_size=4),
        row(4, 999.9, 0.01, cores=2, set_size=4),
    )
    assert numbers(objective.ranked(rows, THROUGHPUT)) == [3, 4, 2, 1, 0]


def test_tied_latencies_go_by_cores_then_set_size_then_throughput_then_latency() -> None:
    rows = (
        row(0, 900.0, 0.0100000, cores=4, set_size=1),
        row(1, 100.0, 0.0100050, cores=2, set_size=2),
        row(2, 100.0, 0.0100090, cores=2, set_size=1),
        row(3, 200.0, 0.0100099, cores=2, set_size=1),
        row(4, 200.0, 0.0100080, cores=2, set_size=1),
        row(5, 999.0, 0.0100200, cores=1, set_size=1),
    )
    assert numbers(objective.ranked(rows, LATENCY)) == [4, 3, 2, 1, 0, 5]


def test_a_tie_is_with_the_best_not_with_the_next() -> None:
    """A chain of rows 0.08 % apart is not one tie: each band is as wide as 0.1 % of its best."""
    rows = [row(n, 1000.0 * 0.9992**n, 1.0 - n / 10) for n in range(5)]
    assert numbers(objective.ranked(rows, THROUGHPUT)) == [1, 0, 3, 2, 4]


def test_rows_without_measurement_are_left_out() -> None:
    rows = view_rows.small_study_rows()
    assert numbers(objective.ranked(rows, THROUGHPUT)) == [4, 3, 5, 2, 1, 0]
    only_infeasible = rows[-1:]
    assert objective.best(only_infeasible, THROUGHPUT) is None
    assert objective.best((), LATENCY) is None
    assert objective.pareto_front(only_infeasible) == ()


# Few values, so that ties and equal rows are common.
ROWS = st.lists(
    st.tuples(st.sampled_from([1.0, 100.0, 100.05, 100.2, 500.0]), st.integers(1, 5)), max_size=12
).map(lambda made: [row(n, rate, latency / 100) for n, (rate, latency) in enumerate(made)])


@given(rows=ROWS, workflow=st.sampled_from(Workflow))
def test_ranked_rows_never_rise_by_more_than_a_tie(
    rows: list[TrialRow], workflow: Workflow
) -> None:
    ranked = objective.ranked(rows, workflow)
    assert sorted(numbers(ranked)) == list(range(len(rows)))
    assert objective.best(rows, workflow) == (ranked[0] if ranked else None)
    scores = [objective.score(workflow, measured(found)) for found in ranked]
    for place, score in enumerate(scores):
        assert max(scores[place:]) <= score + 0.00101 * abs(max(scores[place:]))


@given(rows=ROWS, workflow=st.sampled_from(Workflow), seed=st.integers(0, 5))
def test_the_order_of_rows_does_not_matter(
    rows: list[TrialRow], workflow: Workflow, seed: int
) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert objective.ranked(shuffled, workflow) == objective.ranked(rows, workflow)
    assert set(objective.pareto_front(shuffled)) == set(objective.pareto_front(rows))


def dominates(one: TrialRow, other: TrialRow) -> bool:
    """By definition, pair by pair."""
    rates = measured(one).inferences_per_s, measured(other).inferences_per_s
    latencies = measured(one).latency.mean_s, measured(other).latency.mean_s
    no_worse = rates[0] >= rates[1] and latencies[0] <= latencies[1]
    return no_worse and (rates[0] > rates[1] or latencies[0] < latencies[1])


@given(rows=ROWS)
def test_the_front_is_what_nothing_dominates(rows: list[TrialRow]) -> None:
    expected = {
        found.number for found in rows if not any(dominates(other, found) for other in rows)
    }
    front = objective.pareto_front(rows)
    assert set(numbers(front)) == expected
    assert len(front) == len(expected)
    latencies = [measured(found).latency.mean_s for found in front]
    assert latencies == sorted(latencies)
