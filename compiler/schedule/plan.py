"""A step with all decisions about it, as the lowering needs them."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.partition import (
    Cluster,
    Exchange,
    Split,
    choose_split,
    exchange_for,
)
from compiler.schedule.steps import Step, StepKind
from compiler.schedule.tiling import Tiling, tile_matrix, tile_vector

DEFAULT_OLS = 2
"""What an unset ols means here: the vendor's own searches end at 2 or 3 almost everywhere
(tuning notebooks), and the smaller one costs fewer synchronisations."""

@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step: how it is split and tiled, and what is exchanged before it, by operand."""

    step: Step
    split: Split
    tiling: Tiling
    exchanges: tuple[Exchange, ...]

    @property
    def core_output_bytes(self) -> int:
        """Bytes of the output that one core holds."""
        return -(-self.step.output.size_bytes // self.split.cores)

    @property
    def core_weight_bytes(self) -> int:
        """Bytes of weights that one core needs."""
        return -(-self.step.weight_bytes // self.split.channels)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of weights that one tile needs on one core."""
        return -(-self.core_weight_bytes // self.tiling.channels)

    @property
    def core_gather_bytes(self) -> int:
        """Bytes that a core receives from others and keeps while the step runs."""
        return sum(e.sent_bytes * e.receivers for e in self.exchanges)


def plan_steps(
    steps: tuple[Step, ...], cluster: Cluster, ols: int | None
) -> tuple[PlannedStep, ...]:
    """Decide split and tiles of every step, in order, since each follows from those before it."""
    splits: dict[str, Split] = {}
    tilings: dict[str, Tiling] = {}
    units: dict[str, int] = {}
    planned = []
    for step in steps:
        first = step.operands[0].tensor if step.operands else None
        row_units = max(step.output.row_units, units[first] if first else 1)
        split = choose_split(step, splits[first] if first else None, row_units, cluster)
        exchanges = tuple(
            exchange_for(step, operand, size, splits[operand.tensor], split, cluster)
            for operand, size in zip(step.operands, _sizes(step, planned), strict=True)
        )
        tiling = _tiling(step, split, tilings[first] if first else None, ols or DEFAULT_OLS)
        splits[step.output.name] = split
        tilings[step.output.name] = tiling
        units[step.output.name] = step.output.row_units
        planned.append(PlannedStep(step, split, tiling, exchanges))
    return tuple(planned)


def _sizes(step: Step, planned: list[PlannedStep]) -> list[int]:
    sizes = {plan.step.output.name: plan.step.output.size_bytes for plan in planned}
    return [sizes[operand.tensor] for operand in step.operands]


def _tiling(step: Step, split: Split, before: Tiling | None, ols: int) -> Tiling:
    if step.kind is StepKind.MATRIX and step.matrix is not None:
        size = step.output.size_bytes
        return tile_matrix(step.matrix, step.weight_bytes, size, split, ols)
    return tile_vector(step, split, before, ols)

