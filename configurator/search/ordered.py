"""Searches that visit the points in an order fixed beforehand."""

from __future__ import annotations

import random
from collections.abc import Iterable

from configurator.records import Workflow
from configurator.search.base import PointSearcher
from configurator.space import Point, SearchSpace


class _OrderedSearcher(PointSearcher):
    def __init__(
        self, space: SearchSpace, workflow: Workflow, seed: int, order: Iterable[Point]
    ) -> None:
        super().__init__(space, workflow, seed)
        self._order = iter(order)
        self._next = next(self._order)

    def _propose(self) -> Point:
        # What was told stays told, so the way already gone need not be searched again.
        while self._next in self._told:
            self._next = next(self._order)
        return self._next


class GridSearcher(_OrderedSearcher):
    """Every point, in the order of the space."""

    def __init__(self, space: SearchSpace, workflow: Workflow, seed: int) -> None:
        super().__init__(space, workflow, seed, space.points())


class RandomSearcher(_OrderedSearcher):
    """Every point, in an order that the seed decides."""

    def __init__(self, space: SearchSpace, workflow: Workflow, seed: int) -> None:
        points = list(space.points())
        random.Random(seed).shuffle(points)
        super().__init__(space, workflow, seed, points)
