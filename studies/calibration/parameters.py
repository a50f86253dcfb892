"""What is fitted, how far from its published value it may plausibly lie, and back to a timing.

A parameter moves by a factor; its spread is the standard deviation of that factor's logarithm
before any measurement is seen. Small where a source measured just this, large where the value was
assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compiler.program import VectorOp
from runtime_sim.timing import PUBLISHED, TimingParams

F64 = NDArray[np.float64]

_DIGITS = 4
"""Significant digits of a fitted value: no measurement carries more, and the last bits of a
linear solver differ from machine to machine."""

_CLASS = "vector_millicycles."


@dataclass(frozen=True, slots=True)
class Parameter:
    """One entry of `TimingParams`; of its vector classes, "vector_millicycles.NAME"."""

    name: str
    spread: float

    @property
    def published(self) -> int:
        """The value that it starts from."""
        if self.name.startswith(_CLASS):
            return PUBLISHED.vector_millicycles[VectorOp[self.name.removeprefix(_CLASS)]]
        return int(asdict(PUBLISHED)[self.name])


_MEASURED_CLASSES = frozenset(
    {
        VectorOp.ADD,
        VectorOp.ADD_SPLAT,
        VectorOp.MUL,
        VectorOp.MUL_SPLAT,
        VectorOp.BROADCAST,
        VectorOp.ERF,
        VectorOp.SOFTMAX,
        VectorOp.NORMALIZE,
        VectorOp.TRANSPOSE,
        VectorOp.TO_D32,
        VectorOp.FROM_D32,
        VectorOp.WEIGHTS_TO_D32,
    }
)
"""Those that BERT-base's device profile shows."""

PARAMETERS = (
    Parameter("hmx_efficiency_permille", 0.12),
    Parameter("hmx_task_cycles", 0.7),
    Parameter("hmx_operator_cycles", 0.7),
    Parameter("hvx_operator_cycles", 0.7),
    Parameter("operator_core_cycles", 1.0),
    Parameter("vector_task_cycles", 0.6),
    Parameter("dma_issue_cycles", 0.3),
    Parameter("ddr_bytes_per_s", 0.06),
    Parameter("ddr_core_bytes_per_s", 0.2),
    Parameter("ddr_latency_ns", 0.4),
    Parameter("noc_bytes_per_s", 0.1),
    Parameter("noc_core_bytes_per_s", 0.2),
    Parameter("noc_latency_ns", 0.7),
    Parameter("barrier_ns", 0.5),
    Parameter("barrier_core_ns", 0.6),
    Parameter("launch_ns", 0.8),
    Parameter("pcie_in_bytes_per_s", 0.03),
    Parameter("pcie_out_bytes_per_s", 0.05),
    Parameter("host_submit_ns", 0.2),
    Parameter("host_prepare_bytes_per_s", 0.5),
    Parameter("host_finish_bytes_per_s", 0.5),
    Parameter("host_gap_ns", 0.3),
    Parameter("static_mw", 0.2),
    Parameter("voltage_permille", 0.2),
    Parameter("hmx_fj_per_mac", 0.2),
    Parameter("hvx_fj_per_cycle", 0.6),
    Parameter("ddr_fj_per_byte", 0.4),
    Parameter("noc_fj_per_byte", 0.5),
    Parameter("pcie_fj_per_byte", 0.5),
    *(Parameter(_CLASS + op.name, 0.2 if op in _MEASURED_CLASSES else 0.8) for op in VectorOp),
)

SPREADS = np.array([parameter.spread for parameter in PARAMETERS])


def values_of(logs: F64) -> tuple[int, ...]:
    """The parameters' values, `logs` being the logarithms of their factors."""
    pairs = zip(PARAMETERS, np.exp(logs).tolist(), strict=True)
    return tuple(_rounded(parameter.published * factor) for parameter, factor in pairs)


def timing_of(values: Sequence[int]) -> TimingParams:
    """The published timing with these values."""
    found = {parameter.name: value for parameter, value in zip(PARAMETERS, values, strict=True)}
    classes = tuple(found.pop(_CLASS + op.name) for op in VectorOp)
    return replace(PUBLISHED, vector_millicycles=classes, **found)


def timing_at(logs: F64) -> TimingParams:
    """The timing at a point of the search, to all digits that its integers have."""
    pairs = zip(PARAMETERS, np.exp(logs).tolist(), strict=True)
    return timing_of([max(1, round(parameter.published * factor)) for parameter, factor in pairs])


def _rounded(value: float) -> int:
    return max(1, int(float(f"{value:.{_DIGITS}g}")))
