"""Compile and simulate exactly what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError
from compiler.program import Program
from compiler.target import device
from configurator.validate.rows import MeasuredRow
from runtime_sim.errors import DeviceError
from runtime_sim.measurement import Latency, Measurement
from runtime_sim.simulator import SimulatorBackend


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the simulator says of a row; `refused` is the reason where it says nothing."""

    row: MeasuredRow
    predicted_ips: float | None
    predicted_ms: float | None
    refused: str = ""


def predict_all(
    rows: Sequence[MeasuredRow], models: Path, jobs: int, on_done: Callable[[int], None]
) -> tuple[Prediction, ...]:
    """Predictions in the order of the rows; `on_done` is told how many more are done."""
    groups = _by_program(rows)
    found: dict[str, Prediction] = {}
    for predictions in _run(groups, models, jobs):
        found.update({prediction.row.id: prediction for prediction in predictions})
        on_done(len(predictions))
    return tuple(found[row.id] for row in rows)


def _by_program(rows: Sequence[MeasuredRow]) -> list[tuple[MeasuredRow, ...]]:
    """Rows of one graph and batch together, since they share what was imported."""
    groups: dict[object, list[MeasuredRow]] = {}
    for row in rows:
        key = (row.graph, row.dims, row.compile.batch_size, row.compile.num_cores)
        groups.setdefault(key, []).append(row)
    return [tuple(group) for group in groups.values()]


def _run(
    groups: list[tuple[MeasuredRow, ...]], models: Path, jobs: int
) -> Iterable[tuple[Prediction, ...]]:
    if jobs < 2:
        yield from (_predict_group(models, group) for group in groups)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_predict_group, [models] * len(groups), groups)


_COMPILERS: dict[str, OnnxCompiler] = {}
"""One a process, so that consecutive groups of a model import it once."""


def _predict_group(models: Path, rows: tuple[MeasuredRow, ...]) -> tuple[Prediction, ...]:
    compiler = _COMPILERS.setdefault("", OnnxCompiler())
    return tuple(predict(row, models, compiler) for row in rows)


def predict(row: MeasuredRow, models: Path, compiler: OnnxCompiler) -> Prediction:
    """One row; a refusal is a prediction without numbers."""
    try:
        program = program_of(row, models, compiler)
        measured = SimulatorBackend(device(row.sku)).run(program, row.run)
    except (CompileError, DeviceError) as error:
        return Prediction(row, None, None, str(error))
    return Prediction(row, measured.inferences_per_s, latency_ms(row, measured))


def program_of(row: MeasuredRow, models: Path, compiler: OnnxCompiler) -> Program:
    """What was measured, compiled; raises as the compiler does."""
    path = models / f"{row.graph}.onnx"
    symbols = set(compiler.describe(path).symbols)
    bound = tuple((name, extent) for name, extent in row.dims if name in symbols)
    return compiler.compile(path, replace(row.compile, symbols=bound), device(row.sku))


def latency_ms(row: MeasuredRow, measured: Measurement) -> float | None:
    """The latency that the row's statistic names."""
    if row.measured_ms is None:
        return None
    if row.latency_stat.startswith("wall time"):
        return 1e3 * row.compile.batch_size / measured.inferences_per_s
    return 1e3 * _statistic(row.latency_stat, measured.latency)


def _statistic(name: str, latency: Latency) -> float:
    for prefix in ("p50", "p90", "p95", "p99"):
        if name.startswith(prefix):
            return float(getattr(latency, f"{prefix}_s"))
    return latency.mean_s
