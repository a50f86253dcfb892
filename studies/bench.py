"""How long a compilation and a trial take: `python -m studies.bench`.

Times are of this machine; compare the ratios. A warm trial simulates a program that has been run
before, as all but the first instances and set sizes of a binary are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from compiler.driver import OnnxCompiler
from compiler.program import Program
from compiler.target import Sku, device
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from studies.simulated import MODELS, options

CASES = (("resnet50", 4), ("mobilenet_v2", 8), ("bert_base_qa", 8))
"""Model and batch size; each on 2 cores x 7 instances with set size 10."""

REPEATS = 5
STD = device(Sku.STD)
RUN = RunOptions(instances=7, set_size=10)


def main() -> int:
    """Print the times of each case, events a second, and the ratio to plain Python."""
    if len(sys.argv) > 1:
        print(time_trial(sys.argv[1], int(sys.argv[2]))[0])
        return 0
    print(
        "model         tasks  compile_s  other_cores_s  warm_trial_s  events  Mevents/s  x plain"
    )
    for model, batch_size in CASES:
        print(row(model, batch_size))
    return 0


def row(model: str, batch_size: int) -> str:
    """One line of the table."""
    compiler, path = OnnxCompiler(), MODELS / f"{model}.onnx"
    first = seconds(lambda: compiler.compile(path, options(model, 2, batch_size), STD))
    other = seconds(lambda: compiler.compile(path, options(model, 4, batch_size), STD))
    warm, events, program = time_trial(model, batch_size)
    plain = plain_seconds(model, batch_size)
    return (
        f"{model:13s} {len(program.tasks):5d} {first:10.2f} {other:14.2f} {warm:13.3f} "
        f"{events:7d} {events / warm / 1e6:10.1f} {plain / warm:8.0f}"
    )


def time_trial(model: str, batch_size: int) -> tuple[float, int, Program]:
    """Seconds and events of the fastest of some warm trials, and their program."""
    path = MODELS / f"{model}.onnx"
    program = OnnxCompiler().compile(path, options(model, 2, batch_size), STD)
    backend = SimulatorBackend(STD)
    events = backend.record(program, RUN).events
    times = [seconds(lambda: backend.record(program, RUN)) for _ in range(repeats())]
    return min(times), events, program


def repeats() -> int:
    """Fewer where the loop runs as plain Python."""
    return 1 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else REPEATS


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def plain_seconds(model: str, batch_size: int) -> float:
    """Wall time of the same trial with the event loop as plain Python, in a process of its own."""
    command = [sys.executable, "-m", "studies.bench", model, str(batch_size)]
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
