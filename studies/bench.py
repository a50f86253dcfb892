"""How long a compilation and a trial take: `python -m studies.bench [--models DIR]`.

Each model on 2 cores x 7 instances with set size 10; images at batch 4, sequences of 128 tokens at
batch 8. Trials take the product's path, `SimulatorBackend.run`:

    cold    a new process, from its start: libraries, program and compiled loops are loaded
    first   the process has run others, the program is new to it
    warm    the program has been run, but this point is new
    again   the point with another set size, whose executions are known

An event is the end of a computing task, the begin or end of a transfer, or a step of the host;
those of a warm trial are counted. `x plain` is the same warm trial with the same source as plain
Python. `ns/task` is what one execution on the device takes for each of its tasks: if it is the
same for small and large programs, cost is linear. `MB` is the peak of the cold process above that
of a bare interpreter. Times are of this machine, of its processor but for cold ones; compare the
ratios.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError
from compiler.options import CompileOptions
from compiler.program import Program
from compiler.target import Sku, device
from runtime_sim import engine
from runtime_sim.device import execution
from runtime_sim.device.work import T_SERVER, PreparedTasks
from runtime_sim.errors import DeviceError
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from studies.simulated import MODELS

STD = device(Sku.STD)
CORES = 2
POINT = RunOptions(instances=7, set_size=10)
OTHER_POINT = RunOptions(instances=1, set_size=1, inferences=1)
OTHER_SET_SIZE = RunOptions(instances=7, set_size=8)
IMAGES, SEQUENCES = 4, 8
SYMBOLS = {"seq_len": 128, "past_len": 127}
REPEATS = 5

_HEADER = (
    f"{'model':32} {'batch':>5} {'tasks':>7} {'compile s':>9} {'cold s':>6} {'first ms':>8} "
    f"{'warm ms':>8} {'again ms':>8} {'events':>9} {'Mevents/s':>9} {'x plain':>7} "
    f"{'ns/task':>7} {'MB':>5}"
)

_COLD = """
from pathlib import Path
def peak_kb():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
bare = peak_kb()
import pickle, sys, time
stamps = [time.perf_counter()]
def passed():
    stamps.append(time.perf_counter())
from compiler.target import Sku, device
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
passed()
program = pickle.loads(Path(sys.argv[1]).read_bytes())
passed()
import runtime_sim.device.execution, runtime_sim.engine
passed()
SimulatorBackend(device(Sku.STD)).run(program, RunOptions(instances=1, set_size=1, inferences=1))
passed()
SimulatorBackend(device(Sku.STD)).run(program, RunOptions(instances=7, set_size=10))
passed()
print(*(after - before for before, after in zip(stamps, stamps[1:])), peak_kb() - bare)
"""
_PLAIN = """
import sys
from studies.bench import loaded, warm_seconds
print(warm_seconds(loaded(sys.argv[1])[0], 1))
"""


@dataclass(slots=True)
class Counted:
    """What trials did while it was watching.

    `merged` counts the tasks of an execution, those that run back to back as one; `fastest_s` is
    what the fastest of all executions took.
    """

    events: int = 0
    merged: int = 0
    fastest_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cold:
    """Where the seconds of a cold process went, and its peak above a bare interpreter."""

    start_s: float
    libraries_s: float
    program_s: float
    numba_s: float
    loops_s: float
    trial_s: float
    peak_mb: float

    @property
    def total_s(self) -> float:
        """From the start of the process to its end."""
        loaded_s = self.libraries_s + self.program_s + self.numba_s + self.loops_s
        return self.start_s + loaded_s + self.trial_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One program; see the module for what is measured."""

    model: str
    batch_size: int
    tasks: int
    compile_s: float
    cold: Cold
    first_s: float
    warm_s: float
    again_s: float
    counted: Counted = field(repr=False)
    plain_s: float

    @property
    def ns_a_task(self) -> float:
        """Of an execution on the device."""
        return self.counted.fastest_s / self.counted.merged * 1e9

    @property
    def times_plain(self) -> float:
        """How much longer plain Python takes."""
        return self.plain_s / self.warm_s


def row_of(path: Path) -> Row:
    """Measure one model; raises `CompileError` or `DeviceError` where it does not fit."""
    program, compile_s = compiled(path)
    SimulatorBackend(STD).run(program, OTHER_POINT)  # loads the loops
    first_s = seconds(lambda: SimulatorBackend(STD).run(program, POINT))
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "program"
        held.write_bytes(pickle.dumps(program))
        cold = cold_process(held)
        plain_s = float(in_process(_PLAIN, held, NUMBA_DISABLE_JIT="1"))
    return Row(
        model=path.stem,
        batch_size=program.options.batch_size,
        tasks=len(program.tasks),
        compile_s=compile_s,
        cold=cold,
        first_s=first_s,
        warm_s=warm_seconds(program, REPEATS),
        again_s=again_seconds(program),
        counted=counted(program),
        plain_s=plain_s,
    )


def compiled(path: Path) -> tuple[Program, float]:
    """The program of a model on `CORES`, and the seconds that it took."""
    compiler = OnnxCompiler()
    began = time.process_time()
    bound = tuple((s, SYMBOLS[s]) for s in compiler.describe(path).symbols if s in SYMBOLS)
    options = CompileOptions(
        num_cores=CORES, batch_size=SEQUENCES if bound else IMAGES, symbols=bound
    )
    program = compiler.compile(path, options, STD)
    return program, time.process_time() - began


def loaded(path: str) -> tuple[Program, SimulatorBackend]:
    """A program that this module wrote, and a card for it."""
    program: Program = pickle.loads(Path(path).read_bytes())
    return program, SimulatorBackend(STD)


def cold_process(program: Path) -> Cold:
    """A trial of a program that this module wrote, in a process that has nothing."""
    began = time.perf_counter()
    *spans, peak_kb = map(float, in_process(_COLD, program).split())
    total_s = time.perf_counter() - began
    libraries_s, program_s, numba_s, loops_s, trial_s = spans
    return Cold(
        start_s=total_s - sum(spans),
        libraries_s=libraries_s,
        program_s=program_s,
        numba_s=numba_s,
        loops_s=loops_s,
        trial_s=trial_s,
        peak_mb=peak_kb / 1024,
    )


def warm_seconds(program: Program, repeats: int) -> float:
    """The fastest of some trials of a point that is new to the card, the program being known."""
    return min(_warm(program)[1] for _ in range(repeats))


def again_seconds(program: Program) -> float:
    """The fastest of some trials after one with another set size."""
    times = []
    for _ in range(REPEATS):
        card = _warm(program)[0]
        times.append(seconds(partial(card.run, program, OTHER_SET_SIZE)))
    return min(times)


def _warm(program: Program) -> tuple[SimulatorBackend, float]:
    backend = SimulatorBackend(STD)
    backend.run(program, OTHER_POINT)
    return backend, seconds(lambda: backend.run(program, POINT))


def counted(program: Program) -> Counted:
    """What one warm trial consists of."""
    seen = Counted()
    executed, simulated = execution.execute, engine.simulate

    def execute(
        tasks: PreparedTasks, servers: execution.I64, background: tuple[int, int]
    ) -> execution.Execution:
        began = time.process_time()
        run = executed(tasks, servers, background)
        seen.fastest_s = min(seen.fastest_s, time.process_time() - began)
        seen.merged = len(tasks.task)
        seen.events += run.events + int(np.count_nonzero(tasks.task[:, T_SERVER] < 0))
        return run

    def simulate(*world: execution.I64) -> int:
        events = int(simulated(*world))
        seen.events += events
        return events

    backend = SimulatorBackend(STD)
    backend.run(program, OTHER_POINT)
    watched = mock.patch.object(execution, "execute", execute)
    with watched, mock.patch.object(engine, "simulate", simulate):
        backend.run(program, POINT)
    return seen


def in_process(code: str, program: Path, **environment: str) -> str:
    """What `code` prints in a process of its own."""
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, str(program)],
        env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def seconds(action: Callable[[], object]) -> float:
    """Processor time of one call: one thread works, and others may use the machine too."""
    began = time.process_time()
    action()
    return time.process_time() - began


def linear(rows: Sequence[Row]) -> tuple[float, float, float]:
    """An execution's seconds, and seconds a task, that fit best, and the correlation."""
    tasks = np.array([row.counted.merged for row in rows])
    spent = np.array([row.counted.fastest_s for row in rows])
    each, fixed = np.polyfit(tasks, spent, 1)
    return float(fixed), float(each), float(np.corrcoef(tasks, spent)[0, 1])


def text(row: Row) -> str:
    """A line of the table."""
    return (
        f"{row.model:32} {row.batch_size:5} {row.tasks:7} {row.compile_s:9.2f} "
        f"{row.cold.total_s:6.2f} {row.first_s * 1e3:8.2f} "
        f"{row.warm_s * 1e3:8.2f} {row.again_s * 1e3:8.2f} "
        f"{row.counted.events:9} {row.counted.events / row.warm_s / 1e6:9.1f} "
        f"{row.times_plain:7.0f} {row.ns_a_task:7.0f} {row.cold.peak_mb:5.0f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each model, then what they say together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=MODELS, help="an ONNX file, or a folder")
    asked = parser.parse_args(arguments)
    paths = [asked.models] if asked.models.is_file() else sorted(asked.models.glob("*.onnx"))
    rows: list[Row] = []
    print(_HEADER)
    for path in paths:
        try:
            rows.append(row_of(path))
            print(text(rows[-1]), flush=True)
        except (CompileError, DeviceError) as error:
            print(f"{path.stem:32} {error}", flush=True)
    print(summary(rows))
    return 0


def summary(rows: Sequence[Row]) -> str:
    """The ends of each scale."""
    if not rows:
        return "no model was measured"
    largest = max(rows, key=lambda row: row.tasks)
    slowest = max(rows, key=lambda row: row.warm_s)
    plain = sorted(row.times_plain for row in rows)
    lines = [
        f"slowest warm trial: {slowest.model}, {slowest.warm_s * 1e3:.1f} ms",
        f"plain Python takes {plain[0]:.0f} to {plain[-1]:.0f} times as long",
        f"largest program: {largest.model}, {largest.tasks} tasks, {largest.cold.peak_mb:.0f} MB",
    ]
    lines.append(f"its cold process: {cold_text(largest.cold)}")
    if len(rows) > 2:
        fixed, each, fit = linear(rows)
        lines.append(
            f"an execution takes {fixed * 1e6:.0f} us and {each * 1e9:.0f} ns a task "
            f"(correlation {fit:.3f})"
        )
    return "\n".join(["", *lines])


def cold_text(cold: Cold) -> str:
    """Where its time went."""
    return (
        f"interpreter {cold.start_s:.2f} s, libraries {cold.libraries_s:.2f}, "
        f"program {cold.program_s:.2f}, numba {cold.numba_s:.2f}, "
        f"compiled loops {cold.loops_s:.2f}, trial {cold.trial_s:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
