"""The searchers by name."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from configurator.records import Workflow
from configurator.search.base import Searcher
from configurator.search.ordered import GridSearcher, RandomSearcher
from configurator.search.tpe import TpeSearcher
from configurator.space import SearchSpace


class Sampler(Enum):
    """How the next candidate is chosen."""

    TPE = "tpe"
    RANDOM = "random"
    GRID = "grid"


def searcher(sampler: Sampler, space: SearchSpace, workflow: Workflow, seed: int) -> Searcher:
    """A new searcher that was told nothing yet."""
    match sampler:
        case Sampler.TPE:
            return TpeSearcher(space, workflow, seed)
        case Sampler.RANDOM:
            return RandomSearcher(space, workflow, seed)
        case Sampler.GRID:
            return GridSearcher(space, workflow, seed)
        case _:
            assert_never(sampler)
