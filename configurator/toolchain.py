"""A compiler and a backend that understand the same programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from compiler.api import Compiler
from compiler.target import DeviceSpec
from runtime_sim.backend import DeviceBackend

if TYPE_CHECKING:  # numpy and onnx stay out of the commands that show stored trials
    from compiler.program import Program

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain(Generic[P]):
    """What turns a candidate into a measurement on one card.

    A pair, because compilers and backends are not freely mixed: both deal in programs `P`, and the
    type checker refuses two that do not. `timing_id` says which timing parameters the backend
    uses; it is part of what makes two results comparable.
    """

    compiler: Compiler[P]
    backend: DeviceBackend[P]
    device: DeviceSpec
    timing_id: str


def simulated(
    device: DeviceSpec, cache_dir: Path | None, batch_symbol: str | None = None
) -> Toolchain[Program]:
    """Our compiler and our simulator of `device`; programs are cached in `cache_dir` if given.

    `batch_symbol` names the model's batch dimension where the compiler does not find it.
    """
    from compiler.driver import OnnxCompiler
    from runtime_sim.simulator import SimulatorBackend

    backend = SimulatorBackend(device)
    return Toolchain(
        compiler=OnnxCompiler(cache_dir, batch_symbol),
        backend=backend,
        device=device,
        timing_id=backend.timing_id,
    )
