"""What every searcher must keep: `configurator.search.base.Searcher` says it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from compiler.options import violations as compile_violations
from compiler.target import DeviceSpec, Sku, device
from configurator.records import Candidate, TrialRow, Workflow
from configurator.search import Sampler, Searcher, searcher
from configurator.space import Choices, SearchSpace, space_for
from runtime_sim.options import violations as run_violations
from tests.configurator import device_model

STD = device(Sku.STD)
WIDE = space_for(Workflow.THROUGHPUT, STD)
SMALL = space_for(
    Workflow.THROUGHPUT, STD, Choices(cores=(2, 7, 9), batch_sizes=(1, 4), set_sizes=(1, 10))
)


@pytest.fixture(params=list(Sampler), ids=lambda sampler: sampler.value)
def sampler(request: pytest.FixtureRequest) -> Sampler:
    made = request.param
    assert isinstance(made, Sampler)
    return made


def fits(candidate: Candidate) -> bool:
    """Some candidates turn out not to fit, as they do on a card."""
    return candidate.compile.batch_size * 3 <= candidate.compile.num_cores * 20


def answer(number: int, candidate: Candidate) -> TrialRow:
    if fits(candidate):
        return device_model.complete(number, candidate)
    return device_model.infeasible(number, candidate)


def go_on(found: Searcher, numbers: Iterable[int]) -> list[Candidate]:
    """Ask and answer once for each number, or until all was asked."""
    asked = []
    for number in numbers:
        candidate = found.ask()
        if candidate is None:
            break
        asked.append(candidate)
        found.tell(answer(number, candidate))
    return asked


def made(sampler: Sampler, space: SearchSpace, seed: int = 5) -> Searcher:
    return searcher(sampler, space, Workflow.THROUGHPUT, seed)


def is_legal(candidate: Candidate, card: DeviceSpec) -> bool:
    cores = candidate.compile.num_cores
    return not compile_violations(candidate.compile, card) and not run_violations(
        candidate.run, cores, card
    )


@pytest.mark.parametrize("sku", [Sku.STD, Sku.PRO, Sku.LITE, Sku.DM2E])
def test_what_is_asked_is_legal_and_of_the_space(sampler: Sampler, sku: Sku) -> None:
    card = device(sku)
    space = space_for(Workflow.THROUGHPUT, card)
    for candidate in go_on(made(sampler, space), range(40)):
        assert is_legal(candidate, card)
        assert candidate in space


def test_nothing_is_asked_twice_and_all_is_asked(sampler: Sampler) -> None:
    asked = go_on(made(sampler, SMALL), count())
    assert len(asked) == len(set(asked)) == SMALL.size
    assert set(asked) == set(SMALL.candidates())


@pytest.mark.parametrize(
    "choices",
    [
        Choices(cores=(3,), instances=(2,), batch_sizes=(4,), set_sizes=(5,)),
        Choices(cores=(3,), batch_sizes=(4,)),
        Choices(cores=(14,), set_sizes=(1,)),
    ],
    ids=["one point", "one batch size", "one pair"],
)
def test_axes_of_one_value_are_searched_to_the_end(sampler: Sampler, choices: Choices) -> None:
    space = space_for(Workflow.THROUGHPUT, STD, choices)
    found = made(sampler, space)
    assert len(go_on(found, count())) == space.size
    assert found.ask() is None


def test_the_untuned_candidate_comes_first_and_the_vendors_starts_follow(
    sampler: Sampler,
) -> None:
    first = go_on(made(sampler, WIDE), range(5))
    pairs = [(asked.compile.num_cores, asked.run.instances) for asked in first]
    assert pairs == [(14, 1), (1, 14), (2, 7), (4, 3), (7, 2)]
    assert {asked.compile.batch_size for asked in first} == {1}
    assert {asked.run.set_size for asked in first} == {10}


def test_the_seed_decides(sampler: Sampler) -> None:
    one, same, other = (go_on(made(sampler, WIDE, seed), range(25)) for seed in (3, 3, 4))
    assert one == same
    assert (one == other) == (sampler is Sampler.GRID)


@pytest.mark.parametrize("seed", [0, -1, 2**32, 2**63 - 1, -(10**30)])
def test_any_integer_is_a_seed(sampler: Sampler, seed: int) -> None:
    assert len(go_on(made(sampler, WIDE, seed), range(8))) == 8


def test_a_resumed_search_goes_on_as_if_undisturbed(sampler: Sampler) -> None:
    undisturbed = go_on(made(sampler, SMALL), range(24))
    for stop in (0, 3, 17):
        resumed = made(sampler, SMALL)
        for number, candidate in enumerate(undisturbed[:stop]):
            resumed.tell(answer(number, candidate))
        assert go_on(resumed, range(stop, 24)) == undisturbed[stop:]


def test_asking_again_without_an_answer_repeats_the_question(sampler: Sampler) -> None:
    found = made(sampler, WIDE)
    go_on(found, range(15))
    assert found.ask() == found.ask()


def test_rows_from_outside_the_space_change_nothing(sampler: Sampler) -> None:
    told, untold = made(sampler, SMALL), made(sampler, SMALL)
    outside = [candidate for candidate in WIDE.candidates() if candidate not in SMALL]
    for number, candidate in enumerate(outside[::400]):
        told.tell(answer(number, candidate))
    assert go_on(told, range(12)) == go_on(untold, range(12))


def test_a_row_told_twice_counts_once(sampler: Sampler) -> None:
    once, twice = made(sampler, SMALL), made(sampler, SMALL)
    for number, candidate in enumerate(go_on(once, range(12))):
        twice.tell(answer(number, candidate))
        twice.tell(answer(number, candidate))
    assert go_on(once, range(12, 20)) == go_on(twice, range(12, 20))


def test_a_space_where_nothing_runs_is_searched_to_the_end(sampler: Sampler) -> None:
    found = made(sampler, SMALL)
    asked = 0
    while (candidate := found.ask()) is not None:
        found.tell(device_model.infeasible(asked, candidate))
        asked += 1
    assert asked == SMALL.size
