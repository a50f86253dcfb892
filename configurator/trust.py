"""How far a simulated number may be off, and what sets a configuration apart from the calibration.

The interval is that of measured over predicted in the calibration's cross-validation, where each
model family was predicted by a fit that had not seen it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from compiler.program import Program, TaskKind, VectorOp
from runtime_sim.timing import CALIBRATED_FILE

_FEW_ROWS = 50
"""assumed: a card with fewer calibration rows than this is not covered by them."""

_COUNTS = 0.1
"""assumed: a class of vector work with less than this share of the elements decides nothing."""


ONE_AT_A_TIME, OTHERWISE = "one sample at a time", "otherwise"
"""Names of the two kinds of cases in the calibration's record."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Inferences a second between which a card lies in 80 % of such cases.

    `far` says what is unlike all that was calibrated, so that the interval may be too small.
    """

    low_ips: float
    high_ips: float
    far: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Calibration:
    lone: tuple[float, float]
    otherwise: tuple[float, float]
    skus: frozenset[str]
    classes: frozenset[VectorOp]


def trust_in(program: Program, set_size: int, predicted_ips: float) -> Trust:
    """Of a simulated rate of `program`."""
    known = _calibration()
    low, high = known.lone if one_at_a_time(program, set_size) else known.otherwise
    return Trust(low * predicted_ips, high * predicted_ips, tuple(_unlike(program, known)))


def one_at_a_time(program: Program, set_size: int) -> bool:
    """Whether an instance waits for its host after each sample: such rates scatter more."""
    return program.options.batch_size == 1 and set_size == 1


@lru_cache(maxsize=1)
def _calibration() -> _Calibration:
    document = json.loads(CALIBRATED_FILE.read_text("utf-8"))
    covered = document["calibrated_on"]
    ranges = document["cross_validation"]["measured_over_predicted"]
    lone, otherwise = (ranges[name] for name in (ONE_AT_A_TIME, OTHERWISE))
    skus = {sku for sku, rows in covered["rows_by_sku"].items() if rows >= _FEW_ROWS}
    return _Calibration(
        (lone["low"], lone["high"]),
        (otherwise["low"], otherwise["high"]),
        frozenset(skus),
        frozenset(VectorOp[name] for name in covered["vector_classes"]),
    )


def _unlike(program: Program, known: _Calibration) -> list[str]:
    found = []
    if program.sku.value not in known.skus:
        found.append(f"card {program.sku.value}")
    if np.any(program.tasks.kind == TaskKind.MATMUL_INT8):
        found.append("int8 products")
    if program.options.mxfp6_matmul:
        found.append("6-bit weights")
    return found + [
        f"much {op.name.lower()} work" for op in sorted(_heavy(program) - known.classes)
    ]


def _heavy(program: Program) -> set[VectorOp]:
    vector = program.tasks.kind == TaskKind.VECTOR
    elements = np.bincount(
        program.tasks.w1[vector], program.tasks.w0[vector], minlength=len(VectorOp)
    )
    return {op for op in VectorOp if elements[op] > _COUNTS * elements.sum()}
