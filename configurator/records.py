"""What is asked, and what is remembered of each answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.target import Sku
from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions


class Workflow(Enum):
    """What a study optimises."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"


class TrialState(Enum):
    """How a trial ended.

    COMPLETE has a measurement. INFEASIBLE means that this candidate cannot run on this device
    and says why. FAILED means that a tool broke and says how.
    """

    COMPLETE = "complete"
    INFEASIBLE = "infeasible"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of the search space."""

    compile: CompileOptions
    run: RunOptions

    def key(self) -> str:
        """A digest that is equal exactly for equal candidates."""
        return hashlib.sha256(json.dumps(self._canonical(), sort_keys=True).encode()).hexdigest()

    def _canonical(self) -> dict[str, object]:
        chosen, run = self.compile, self.run
        # Candidates without given shapes keep the keys of databases from before there were any.
        shapes = [[name, list(shape)] for name, shape in chosen.input_shapes]
        return ({"input_shapes": shapes} if shapes else {}) | {
            "cores": chosen.num_cores,
            "batch_size": chosen.batch_size,
            "ols": chosen.ols,
            "mos": chosen.mos,
            "multicast_weights": chosen.multicast_weights,
            "precision": chosen.precision.value,
            "symbols": [list(symbol) for symbol in chosen.symbols],
            "instances": run.instances,
            "set_size": run.set_size,
            "inferences": run.inferences,
            "threads_per_queue": run.threads_per_queue,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What must be equal for two results to be comparable, and what helps to repeat one.

    The first five fields decide: results that differ in one of them never meet in one study.
    """

    model_sha256: str
    sku: Sku
    compiler_version: str
    backend_version: str
    timing_id: str
    configurator_version: str
    seed: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial, as stored. `measurement` is present exactly when `state` is COMPLETE.

    `number` counts from 0 in each study. `reason` is empty exactly when `state` is COMPLETE.
    `started_at` is in UTC, `wall_s` covers compile and run.
    """

    study: str
    number: int
    candidate: Candidate
    state: TrialState
    measurement: Measurement | None
    reason: str
    provenance: Provenance
    started_at: datetime
    wall_s: float

    def __post_init__(self) -> None:
        """Refuse a row that contradicts itself."""
        complete = self.state is TrialState.COMPLETE
        if complete != (self.measurement is not None):
            raise ValueError(f"trial {self.number}: {self.state.value}, yet measurement differs")
        if complete != (self.reason == ""):
            raise ValueError(f"trial {self.number}: state {self.state.value} and reason differ")


@dataclass(frozen=True, slots=True)
class GivenShape:
    """The shape that a user gave to an input, for one sample.

    `batch_dims` are the dims, from 0, where a program has the batch size in its place.
    """

    input: str
    dtype: DType
    extents: tuple[int, ...]
    batch_dims: tuple[int, ...]

    def of_batch(self, batch_size: int) -> tuple[int, ...]:
        """The shape in a program of this batch size."""
        return tuple(
            batch_size if at in self.batch_dims else extent
            for at, extent in enumerate(self.extents)
        )

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.input}={'x'.join(map(str, self.extents)) or 'scalar'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What a study fixes when it is made: reopening it with another value is refused."""

    name: str
    model_path: str
    model_sha256: str
    batch_symbol: str | None
    symbols: tuple[tuple[str, int], ...]
    input_shapes: tuple[GivenShape, ...] = ()
    sku: Sku
    workflow: Workflow
    seed: int
    created_at: datetime
