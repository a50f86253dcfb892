"""Search by Optuna's tree-structured Parzen estimator, through ask and tell.

The store is the truth, Optuna only proposes: each ask runs on a study in memory that is rebuilt
from the rows told, with a random state made from the seed and their number. So nothing that Optuna
keeps to itself (its random state, the duplicates it proposed) can make a resumed search differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from configurator import objective
from configurator.records import TrialRow, Workflow
from configurator.search.base import PointSearcher
from configurator.space import AXES, Point, SearchSpace

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# assumed: after so many duplicates in a row the estimator has nothing new to say.
MOST_DUPLICATES = 20

# assumed: with the starts of the space, enough for the estimator to tell good from bad.
STARTUP_TRIALS = 10

# Optuna's constraints hold when their value is at most zero.
_FEASIBLE = "feasible"
_KEPT, _VIOLATED = -1.0, 1.0


class TpeSearcher(PointSearcher):
    """Optuna's TPE over the indices of the space.

    A proposal that was told before is answered with what was told, and TPE is asked again; after
    `MOST_DUPLICATES` in a row, or as many as there are points left, the unvisited point nearest to
    the last one is taken.
    """

    def __init__(self, space: SearchSpace, workflow: Workflow, seed: int) -> None:
        super().__init__(space, workflow, seed)
        self._trials: dict[Point, FrozenTrial] = {}
        self._worst: float | None = None

    def _propose(self) -> Point:
        study, distributions = self._study(), _distributions(self._space)
        # The fewer points are left, the less it matters which of them comes first.
        for _ in range(min(MOST_DUPLICATES, self._space.size - len(self._told))):
            trial = study.ask(distributions)
            point = tuple(int(trial.params[axis]) for axis in AXES)
            if point not in self._told:
                return point
            told = self._trials[point]
            trial.set_constraint(_FEASIBLE, told.constraints[_FEASIBLE])
            study.tell(trial, told.value)
        unvisited = (other for other in self._space.points() if other not in self._told)
        return _nearest(point, unvisited, self._space.shape)

    def _study(self) -> Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it announces every study
        sampler = optuna.samplers.TPESampler(
            seed=_ask_seed(self._seed, len(self._told)),
            multivariate=True,
            n_startup_trials=STARTUP_TRIALS,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for point, row in self._told.items():
            if point not in self._trials:
                self._trials[point] = self._trial(point, row)
        study.add_trials(list(self._trials.values()))
        return study

    def _trial(self, point: Point, row: TrialRow) -> FrozenTrial:
        """Rows without a measurement break a constraint and score as badly as any row before."""
        from optuna.trial import create_trial

        if row.measurement is None:
            value, slack = self._worst or 0.0, _VIOLATED
        else:
            value, slack = objective.score(self._workflow, row.measurement), _KEPT
            self._worst = value if self._worst is None else min(self._worst, value)
        return create_trial(
            params=dict(zip(AXES, point, strict=True)),
            distributions=_distributions(self._space),
            value=value,
            constraints={_FEASIBLE: slack},
        )


def _distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    from optuna.distributions import IntDistribution

    lengths = zip(AXES, space.shape, strict=True)
    return {axis: IntDistribution(0, length - 1) for axis, length in lengths}


def _ask_seed(seed: int, told: int) -> int:
    """32 bits that differ for each number of rows, and between neighbouring seeds too."""
    return random.Random(f"{seed} {told}").getrandbits(32)


def _nearest(point: Point, others: Iterable[Point], shape: tuple[int, ...]) -> Point:
    """The first of `others` with the least sum of distances, each as a share of its axis."""

    def distance(other: Point) -> float:
        axes = zip(point, other, shape, strict=True)
        return sum(abs(one - two) / length for one, two, length in axes)

    return min(others, key=distance)
