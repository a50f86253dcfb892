"""The seam between the tuning loop and whatever proposes candidates, and what proposers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from configurator.records import Candidate, TrialRow, Workflow
from configurator.space import Point, SearchSpace


class Searcher(Protocol):
    """Proposes candidates of one space and learns from the answers.

    A protocol, because the implementations must not know each other. What is asked follows from
    the space, the workflow, the seed and the rows told so far, in their order, and from nothing
    else: a searcher that is told the stored rows goes on as if it had never stopped, and one that
    is asked twice without an answer repeats itself. A candidate that was told is never asked.
    """

    def ask(self) -> Candidate | None:
        """A candidate of the space that was not told; None when all were."""

    def tell(self, row: TrialRow) -> None:
        """Learn from `row`; one whose candidate is not of the space changes nothing."""


class PointSearcher(ABC):
    """Asks the starts of the space first; after that, a subclass proposes."""

    def __init__(self, space: SearchSpace, workflow: Workflow, seed: int) -> None:
        self._space = space
        self._workflow = workflow
        self._seed = seed
        self._starts = space.starts(workflow)
        self._told: dict[Point, TrialRow] = {}

    def ask(self) -> Candidate | None:
        """See `Searcher.ask`."""
        if len(self._told) == self._space.size:
            return None
        for start in self._starts:
            if self._space.point(start) not in self._told:
                return start
        return self._space.candidate(self._propose())

    def tell(self, row: TrialRow) -> None:
        """See `Searcher.tell`."""
        point = self._space.point(row.candidate)
        if point is not None and point not in self._told:
            self._told[point] = row

    @abstractmethod
    def _propose(self) -> Point:
        """A point that was not told; there is one."""
