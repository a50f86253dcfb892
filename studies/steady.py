"""How far the steady state is from all instances simulated at once: `python -m studies.steady`.

A trial sees the other instances as their mean, as if it met them in every phase
(`runtime_sim.steady`). `SimulatorBackend.record` knows no means: it simulates each transfer of
every instance. A row is one configuration; errors are those of the steady state relative to joint
runs whose instances start spread over an execution, of throughput and of the mean round trip:

    early   the joint runs' first inferences after their warm-up: phases as they were spread
    late    after some dozens of inferences: without any disturbance, instances whose transfers
            disturb each other fall into step, and then ask for DDR all at once

Real instances are disturbed by their hosts all the time; how far they fall into step nobody has
published. So the early runs hold the arithmetic of the mean against the exact engine, and the late
ones say how much is at stake.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError
from compiler.options import CompileOptions
from compiler.program import Program
from compiler.target import Sku, device
from runtime_sim.errors import DeviceError
from runtime_sim.options import RunOptions
from runtime_sim.simulator import Recording, SimulatorBackend
from runtime_sim.timing import CALIBRATED
from studies.simulated import MODELS

STD = device(Sku.STD)
SYMBOLS = {"seq_len": 128, "past_len": 127}
POINTS = ((1, 14, 1), (1, 14, 4), (2, 7, 1), (2, 7, 4), (4, 3, 4), (4, 3, 8), (7, 2, 1), (7, 2, 8))
"""Cores, instances, batch size: full cards."""
SET_SIZES = (1, 2, 3)
"""Small ones: a long queue would still fill in the early part; from 2 on no device is idle."""
EARLY, LAST, LATE = 4, 60, 20
"""Inferences of the early part, of the whole run, and of its end that is the late part."""
STARTS = (0.31, 0.62, 0.93)
"""Over what part of an execution the instances' first calls are spread."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Samples a second, and the mean round trip in seconds."""

    per_s: float
    trip_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration; joint runs are the means over all starts."""

    model: str
    cores: int
    instances: int
    batch_size: int
    set_size: int
    steady: Seen
    early: Seen
    late: Seen

    def rate_error(self, joint: Seen) -> float:
        """Of the throughput, relative."""
        return self.steady.per_s / joint.per_s - 1

    def trip_error(self, joint: Seen) -> float:
        """Of the mean round trip, relative."""
        return self.steady.trip_s / joint.trip_s - 1


def rows_of(
    paths: Sequence[Path],
    points: Sequence[tuple[int, int, int]],
    set_sizes: Sequence[int],
) -> Iterator[Row]:
    """All combinations that compile and fit."""
    for path in paths:
        compiler = OnnxCompiler()
        for cores, instances, batch_size in points:
            try:
                program = _compiled(compiler, path, cores, batch_size)
                for set_size in set_sizes:
                    options = RunOptions(instances=instances, set_size=set_size, inferences=LAST)
                    yield compared(path.stem, program, options)
            except (CompileError, DeviceError):
                continue


def _compiled(compiler: OnnxCompiler, path: Path, cores: int, batch_size: int) -> Program:
    bound = tuple((s, SYMBOLS[s]) for s in compiler.describe(path).symbols if s in SYMBOLS)
    options = CompileOptions(num_cores=cores, batch_size=batch_size, symbols=bound)
    return compiler.compile(path, options, STD)


def compared(model: str, program: Program, options: RunOptions) -> Row:
    """One configuration both ways; raises `DeviceError` where it does not fit."""
    steady = SimulatorBackend(STD).steady(program, options).recording
    execution_ns = float(np.mean(steady.executions_s())) * 1e9
    apart_ns = [round(execution_ns * start / options.instances) for start in STARTS]
    runs = [joint(program, options, distance_ns) for distance_ns in apart_ns]
    batch = program.options.batch_size
    return Row(
        model=model,
        cores=program.options.num_cores,
        instances=options.instances,
        batch_size=batch,
        set_size=options.set_size,
        steady=_seen([steady], batch * options.instances),
        early=_seen([part(run, 0, EARLY) for run in runs], batch),
        late=_seen([part(run, LAST - LATE, LATE) for run in runs], batch),
    )


def joint(program: Program, options: RunOptions, apart_ns: int) -> Recording:
    """All instances at once, their first calls `apart_ns` from each other."""
    timing = replace(CALIBRATED, host_enqueue_ns=apart_ns)
    return SimulatorBackend(STD, timing).record(program, options)


def part(run: Recording, first: int, inferences: int) -> Recording:
    """The run as if its warm-up had been longer by `first` inferences."""
    return replace(run, warmup=run.warmup + first, inferences=inferences)


def _seen(runs: Sequence[Recording], samples: int) -> Seen:
    return Seen(
        float(np.mean([run.per_s * samples for run in runs])),
        float(np.mean([np.mean(run.round_trips_s()) for run in runs])),
    )


def text(row: Row) -> str:
    """A line of the table."""
    return (
        f"{row.model:28} {row.cores:5} {row.instances:9} {row.batch_size:5} {row.set_size:3} "
        f"{row.steady.per_s:9,.0f} {row.rate_error(row.early):+7.1%} "
        f"{row.trip_error(row.early):+7.1%} {row.rate_error(row.late):+7.1%} "
        f"{row.trip_error(row.late):+7.1%}"
    )


def summary(rows: Sequence[Row]) -> str:
    """How the errors are distributed: their mean, then their sizes."""
    errors = {
        "throughput, early": [row.rate_error(row.early) for row in rows],
        "round trip, early": [row.trip_error(row.early) for row in rows],
        "throughput, late": [row.rate_error(row.late) for row in rows],
        "round trip, late": [row.trip_error(row.late) for row in rows],
    }
    lines = [f"{len(rows)} configurations", f"{'':18}    mean  median    90 %   worst"]
    for title, found in errors.items():
        size = np.abs(found)
        numbers = (np.median(size), np.quantile(size, 0.9), size.max())
        shown = " ".join(f"{number:7.1%}" for number in numbers)
        lines.append(f"{title:18} {np.mean(found):+7.1%} {shown}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all rows and the distribution of their errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=Path, default=MODELS, help="an ONNX file, or a folder")
    asked = parser.parse_args(arguments)
    paths = [asked.models] if asked.models.is_file() else sorted(asked.models.glob("*.onnx"))
    rows = []
    print(f"{'':65} {'early':>15} {'late':>15}")
    print(
        f"{'model':28} {'cores':>5} {'instances':>9} {'batch':>5} {'set':>3} {'steady/s':>9} "
        f"{'rate':>7} {'trip':>7} {'rate':>7} {'trip':>7}"
    )
    for row in rows_of(paths, POINTS, SET_SIZES):
        rows.append(row)
        print(text(row), flush=True)
    print(f"\n{summary(rows)}" if rows else "\nno configuration fits")
    return int(not rows)


if __name__ == "__main__":
    sys.exit(main())
