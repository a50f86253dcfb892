"""The space: what is in it, by enumeration of its own; and what cannot be expressed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.options import CompileOptions
from compiler.options import violations as compile_violations
from compiler.target import DEVICES, DeviceSpec, Sku, device
from configurator.errors import ConfiguratorError, InfeasibleError, UsageError
from configurator.records import Candidate, Workflow
from configurator.space import Choices, SearchSpace, space_for
from runtime_sim.options import RunOptions
from runtime_sim.options import violations as run_violations

STD = device(Sku.STD)
VALUES = st.lists(st.integers(min_value=0, max_value=16), min_size=1, max_size=4).map(tuple)


def pairs_of(nsps: int) -> set[tuple[int, int]]:
    """Counted by hand: for each number of cores, 1 to floor(nsps / cores) instances."""
    return {(cores, copies) for cores in range(1, 17) for copies in range(1, nsps // cores + 1)}


@pytest.mark.parametrize("card", DEVICES, ids=lambda card: card.sku.value)
def test_pairs_are_those_that_the_card_has_room_for(card: DeviceSpec) -> None:
    space = space_for(Workflow.THROUGHPUT, card)
    assert len(space.pairs) == len(set(space.pairs))
    assert set(space.pairs) == pairs_of(card.nsps)


def test_the_standard_card_has_2050_points() -> None:
    space = space_for(Workflow.THROUGHPUT, STD)
    assert (len(space.pairs), space.batch_sizes) == (41, (1, 2, 4, 8, 16))
    assert space.set_sizes == tuple(range(1, 11))
    assert space.size == 2050
    assert len(set(space.candidates())) == 2050


def test_least_latency_varies_cores_and_instances_alone() -> None:
    space = space_for(Workflow.LATENCY, STD)
    assert (space.size, space.batch_sizes, space.set_sizes) == (41, (1,), (1,))
    told = space_for(Workflow.LATENCY, STD, Choices(set_sizes=(2, 1), batch_sizes=(4,)))
    assert (told.batch_sizes, told.set_sizes) == ((4,), (1, 2))


def test_pairs_that_use_equally_many_nsps_are_neighbours() -> None:
    used = [cores * copies for cores, copies in space_for(Workflow.THROUGHPUT, STD).pairs]
    assert all(one <= next_one for one, next_one in pairwise(used))


@given(
    card=st.sampled_from(DEVICES),
    workflow=st.sampled_from(Workflow),
    cores=st.none() | VALUES,
    instances=st.none() | VALUES,
    batch_sizes=st.none() | VALUES,
    set_sizes=st.none() | VALUES,
    mos=st.none() | st.integers(min_value=0, max_value=9),
    ols=st.none() | st.integers(min_value=0, max_value=9),
)
def test_every_space_is_legal_or_refused(
    card: DeviceSpec,
    workflow: Workflow,
    cores: tuple[int, ...] | None,
    instances: tuple[int, ...] | None,
    batch_sizes: tuple[int, ...] | None,
    set_sizes: tuple[int, ...] | None,
    mos: int | None,
    ols: int | None,
) -> None:
    choices = Choices(
        cores=cores,
        instances=instances,
        batch_sizes=batch_sizes,
        set_sizes=set_sizes,
        mos=mos,
        ols=ols,
    )
    try:
        space = space_for(workflow, card, choices)
    except (UsageError, InfeasibleError):
        return
    for point, candidate in zip(space.points(), space.candidates(), strict=True):
        assert not compile_violations(candidate.compile, card)
        assert not run_violations(candidate.run, candidate.compile.num_cores, card)
        assert space.point(candidate) == point
        assert space.candidate(point) == candidate
        assert cores is None or candidate.compile.num_cores in cores
        assert instances is None or candidate.run.instances in instances
        assert (candidate.compile.mos, candidate.compile.ols) == (mos, ols)


@pytest.mark.parametrize(
    ("choices", "error", "message"),
    [
        (Choices(cores=(0,)), UsageError, "cores is 0, must be 1 or more"),
        (Choices(cores=(2, 15)), UsageError, "cores is 15, std has 14 NSPs; lower cores"),
        (Choices(instances=(15,)), UsageError, "15 instances = 15, std has 14 NSPs"),
        (Choices(instances=(0, 1)), UsageError, "instances is 0, must be 1 or more"),
        (Choices(batch_sizes=(0,)), UsageError, "batch size is 0, must be 1 or more"),
        (Choices(set_sizes=(0,)), UsageError, "set size is 0, must be 1 or more"),
        (Choices(ols=0), UsageError, "ols is 0, must be 1 or more"),
        (Choices(mos=0), UsageError, "mos is 0, must be between 1 and cores"),
        (Choices(cores=(2, 4), mos=5), UsageError, r"mos is 5, must be .* cores \(4\)"),
        (Choices(cores=()), UsageError, "cores: no value is left"),
        (Choices(set_sizes=()), UsageError, "set sizes: no value is left"),
        (
            Choices(batch_sizes=tuple(range(1, 1001)), set_sizes=tuple(range(1, 1001))),
            UsageError,
            "at most 1,000,000 can be searched",
        ),
        (
            Choices(cores=(7, 8), instances=(3, 4)),
            InfeasibleError,
            "7 cores x 3 instances = 21, std has 14 NSPs; lower cores or instances",
        ),
        (
            Choices(cores=(1, 8), instances=(2,), mos=8),
            InfeasibleError,
            "8 cores x 2 instances = 16, std has 14 NSPs",
        ),
    ],
)
def test_choices_that_leave_nothing_are_refused(
    choices: Choices, error: type[ConfiguratorError], message: str
) -> None:
    with pytest.raises(error, match=message):
        space_for(Workflow.THROUGHPUT, STD, choices)


def test_values_are_sorted_and_without_repeats() -> None:
    space = space_for(Workflow.THROUGHPUT, STD, Choices(batch_sizes=(8, 2, 8), set_sizes=(3, 1)))
    assert (space.batch_sizes, space.set_sizes) == ((2, 8), (1, 3))


def test_combinations_without_room_are_left_out() -> None:
    space = space_for(Workflow.THROUGHPUT, STD, Choices(cores=(7, 8), instances=(3, 2)))
    assert space.pairs == ((7, 2),)


def test_mos_leaves_out_pairs_of_fewer_cores() -> None:
    space = space_for(Workflow.THROUGHPUT, STD, Choices(mos=7))
    assert {cores for cores, _ in space.pairs} == set(range(7, 15))


def a_space() -> SearchSpace:
    choices = Choices(
        cores=(2, 4), symbols=(("seq", 8),), input_shapes=(("pixels", (1, 3, 8, 8)),)
    )
    return space_for(Workflow.THROUGHPUT, STD, choices)


@pytest.mark.parametrize(
    "changes",
    [
        {"pairs": ()},
        {"pairs": ((4, 1), (2, 1))},
        {"pairs": ((2, 1), (2, 1))},
        {"pairs": ((4, 4),)},
        {"pairs": ((0, 4),)},
        {"batch_sizes": (2, 1)},
        {"batch_sizes": (0, 1)},
        {"set_sizes": ()},
        {"set_sizes": (0,)},
        {"mos": 3},
        {"mos": 0},
        {"ols": 0},
    ],
    ids=str,
)
def test_an_illegal_space_cannot_be_made(changes: dict[str, int | tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"."):
        replace(a_space(), **changes)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("point", [(0, 0, -1), (-1, 0, 0), (99, 0, 0), (0, 0), (0, 0, 0, 0), ()])
def test_an_illegal_point_has_no_candidate(point: tuple[int, ...]) -> None:
    with pytest.raises(IndexError):
        a_space().candidate(point)


def test_what_differs_in_anything_is_not_of_the_space() -> None:
    inside = a_space().candidate((0, 0, 0))
    assert inside in a_space()
    for chosen in (
        replace(inside.compile, mos=1),
        replace(inside.compile, ols=2),
        replace(inside.compile, multicast_weights=False),
        replace(inside.compile, symbols=()),
        replace(inside.compile, input_shapes=()),
        replace(inside.compile, batch_size=3),
        replace(inside.compile, num_cores=3),
    ):
        assert Candidate(chosen, inside.run) not in a_space()
    for run in (
        replace(inside.run, set_size=11),
        replace(inside.run, inferences=inside.run.inferences + 1),
        replace(inside.run, threads_per_queue=inside.run.threads_per_queue + 1),
        replace(inside.run, instances=8),
    ):
        assert Candidate(inside.compile, run) not in a_space()


def summary(candidate: Candidate) -> tuple[int, int, int, int]:
    chosen, run = candidate.compile, candidate.run
    return (chosen.num_cores, run.instances, chosen.batch_size, run.set_size)


@pytest.mark.parametrize("card", DEVICES, ids=lambda card: card.sku.value)
@pytest.mark.parametrize("workflow", Workflow)
def test_the_baseline_is_the_first_start(workflow: Workflow, card: DeviceSpec) -> None:
    space = space_for(workflow, card)
    set_size = 10 if workflow is Workflow.THROUGHPUT else 1
    assert summary(space.baseline(workflow)) == (card.nsps, 1, 1, set_size)
    assert space.starts(workflow)[0] == space.baseline(workflow)


def test_latency_starts_with_one_instance() -> None:
    space = space_for(Workflow.LATENCY, STD)
    assert [summary(start) for start in space.starts(Workflow.LATENCY)] == [
        (14, 1, 1, 1),
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (4, 1, 1, 1),
        (7, 1, 1, 1),
    ]


def test_starts_keep_to_what_the_user_fixed() -> None:
    choices = Choices(cores=(2, 3, 7), batch_sizes=(4, 8), set_sizes=(3, 6))
    space = space_for(Workflow.THROUGHPUT, STD, choices)
    starts = [summary(start) for start in space.starts(Workflow.THROUGHPUT)]
    assert starts == [(2, 7, 4, 6), (7, 2, 4, 6)]
    assert space.baseline(Workflow.THROUGHPUT) not in space


def test_other_cards_start_with_all_their_cores_too() -> None:
    starts = space_for(Workflow.THROUGHPUT, device(Sku.LITE)).starts(Workflow.THROUGHPUT)
    assert [summary(start)[:2] for start in starts] == [(9, 1), (1, 9), (2, 4), (4, 2), (7, 1)]


def test_candidates_have_default_run_options() -> None:
    candidate = a_space().candidate((0, 0, 0))
    assert candidate == Candidate(
        CompileOptions(
            num_cores=2,
            batch_size=1,
            symbols=(("seq", 8),),
            input_shapes=(("pixels", (1, 3, 8, 8)),),
        ),
        RunOptions(instances=1, set_size=1),
    )
