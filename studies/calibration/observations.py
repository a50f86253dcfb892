"""Measured rows with their compiled programs, and what a timing says of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compiler.driver import OnnxCompiler
from compiler.program import Program
from compiler.target import Sku, device
from configurator.validate.predict import latency_ms, program_of
from configurator.validate.rows import MeasuredRow
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import TimingParams

F64 = NDArray[np.float64]

ROWS_OF_A_FAMILY = 20
"""assumed: more rows of one network tell the fit nothing new: a few families have hundreds."""

_WEIGHT_ROWS = 6
"""assumed: a family with more rows than this counts as much as one with so many."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was measured, and the program that it was measured of."""

    row: MeasuredRow
    program: Program

    @property
    def is_lone(self) -> bool:
        """Whether an instance waits for its host between two inferences of one sample."""
        return "latency" in self.row.note


def compiled(rows: Iterable[MeasuredRow], models: Path) -> tuple[Observation, ...]:
    """Each row with its program; raises as the compiler does."""
    compiler = OnnxCompiler()
    return tuple(Observation(row, program_of(row, models, compiler)) for row in rows)


def chosen(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """At most `ROWS_OF_A_FAMILY` of each family, spread evenly over its configurations."""
    families: dict[str, list[Observation]] = {}
    for observation in observations:
        families.setdefault(observation.row.family, []).append(observation)
    return tuple(one for family in families.values() for one in _spread(family))


def _spread(family: list[Observation]) -> list[Observation]:
    if len(family) <= ROWS_OF_A_FAMILY:
        return family
    ordered = sorted(family, key=_configuration)
    picked = np.linspace(0, len(ordered) - 1, ROWS_OF_A_FAMILY).round().astype(int)
    return [ordered[at] for at in picked]


def _configuration(observation: Observation) -> tuple[str, int, float, str]:
    row = observation.row
    return row.note, row.compile.num_cores, row.measured_ips or 0.0, row.id


def weights_of(observations: Sequence[Observation]) -> F64:
    """How much each counts, so that a large family does not outvote the others."""
    families = [observation.row.family for observation in observations]
    counts = {family: families.count(family) for family in set(families)}
    return np.array([min(1.0, (_WEIGHT_ROWS / counts[family]) ** 0.5) for family in families])


@dataclass(frozen=True, slots=True)
class Errors:
    """Logarithms of predicted over measured, [observation]; NaN where nothing was published."""

    rate: F64
    latency: F64
    power: F64

    def stacked(self) -> F64:
        """All three, one behind the other."""
        return np.concatenate([self.rate, self.latency, self.power])


def errors_at(observations: Sequence[Observation], timing: TimingParams) -> Errors:
    """Simulate all observations."""
    backends = {sku: SimulatorBackend(device(sku), timing) for sku in Sku}
    found = [_errors(one, backends[one.row.sku]) for one in observations]
    return Errors(*np.array(found, dtype=np.float64).T)


def _errors(observation: Observation, backend: SimulatorBackend) -> tuple[float, float, float]:
    row = observation.row
    measured = backend.run(observation.program, row.run)
    return (
        _log_ratio(measured.inferences_per_s, row.measured_ips),
        _log_ratio(latency_ms(row, measured), row.measured_ms),
        _log_ratio(measured.power_w, row.power_w),
    )


def _log_ratio(predicted: float | None, measured: float | None) -> float:
    if predicted is None or measured is None:
        return float("nan")
    return float(np.log(predicted / measured))
