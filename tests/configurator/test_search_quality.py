"""How near a search comes to the truth, where the truth is known by enumeration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.target import Sku, device
from configurator import objective
from configurator.records import Candidate, TrialRow, Workflow
from configurator.search import Sampler, searcher
from configurator.space import space_for
from tests.configurator import device_model

TRIALS = 60  # of 2,050 points
SPACE = space_for(Workflow.THROUGHPUT, device(Sku.STD))
TRUTH = {
    candidate: device_model.measure(candidate).inferences_per_s for candidate in SPACE.candidates()
}
OPTIMUM = max(TRUTH.values())


def best_share(
    sampler: Sampler, seed: int, trials: int, fits: Callable[[Candidate], bool] = lambda _: True
) -> float:
    """The best of a search as a share of the best there is among what fits."""
    found = searcher(sampler, SPACE, Workflow.THROUGHPUT, seed)
    best = 0.0
    for number in range(trials):
        candidate = found.ask()
        assert candidate is not None
        if fits(candidate):
            best = max(best, TRUTH[candidate])
            found.tell(device_model.complete(number, candidate))
        else:
            found.tell(device_model.infeasible(number, candidate))
    return best / max(rate for candidate, rate in TRUTH.items() if fits(candidate))


def test_the_space_is_worth_searching() -> None:
    """Few points are good and the untuned one is not, or the claims below would be empty."""
    assert len(TRUTH) == 2050
    assert sum(rate >= 0.98 * OPTIMUM for rate in TRUTH.values()) < 0.01 * len(TRUTH)
    assert TRUTH[SPACE.baseline(Workflow.THROUGHPUT)] < 0.2 * OPTIMUM


@pytest.mark.slow
def test_tpe_comes_within_two_percent_on_eight_seeds_of_ten() -> None:
    shares = [best_share(Sampler.TPE, seed, TRIALS) for seed in range(10)]
    assert sum(share >= 0.98 for share in shares) >= 8, shares


def test_random_search_does_not() -> None:
    """The bar is one that luck does not clear."""
    shares = [best_share(Sampler.RANDOM, seed, TRIALS) for seed in range(10)]
    assert sum(share >= 0.98 for share in shares) < 5, shares


@pytest.mark.slow
def test_tpe_finds_the_best_that_fits_beside_what_does_not() -> None:
    """A third of the space does not fit, and the best that does lies at the border."""

    def fits(candidate: Candidate) -> bool:
        return candidate.compile.batch_size * 3 <= candidate.compile.num_cores * 8

    assert 0.6 < sum(map(fits, TRUTH)) / len(TRUTH) < 0.7
    shares = [best_share(Sampler.TPE, seed, 2 * TRIALS, fits) for seed in range(3)]
    assert sum(share >= 0.98 for share in shares) >= 2, shares


def test_least_latency_is_found_by_looking_at_every_point() -> None:
    space = space_for(Workflow.LATENCY, device(Sku.STD))
    found = searcher(Sampler.TPE, space, Workflow.LATENCY, 0)
    rows: list[TrialRow] = []
    while (candidate := found.ask()) is not None:
        rows.append(device_model.complete(len(rows), candidate))
        found.tell(rows[-1])
    best = objective.best(rows, Workflow.LATENCY)
    assert best is not None
    assert best.measurement is not None
    least = min(device_model.measure(asked).latency.mean_s for asked in space.candidates())
    assert best.measurement.latency.mean_s <= least * 1.001
