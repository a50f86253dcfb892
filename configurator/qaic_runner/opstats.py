"""The statistics file: what the operations of one execution took on each core.

Cycles are those for which an operation holds its engine: `pcycles` of the NSP clock, `ucycles` of
the device's timer. The four HVX threads share each vector operation, and so show the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.program import Engine, Program
from compiler.target import DeviceSpec
from configurator.errors import UsageError
from configurator.tables import grid
from runtime_sim.options import RunOptions
from runtime_sim.profile.operations import Operation, operations_of, work_of
from runtime_sim.simulator import SimulatorBackend

F64 = NDArray[np.float64]

_TIMER_HZ = 19_200_000
"""Vendor's profiler notebook: 444,677 ucycles in 0.0231603 s."""

_PS_PER_S = 1e12
_KB = 1024
_SHOWN = {
    Engine.HMX: "HMX",
    Engine.HVX: "HVX",
    Engine.LOAD: "DMAIssue",
    Engine.STORE: "DMAIssue",
    Engine.SYNC: "Sync",
}
_THREADS = (
    *((f"t{number} HVX", (Engine.HVX,)) for number in range(4)),
    ("t4 HMX", (Engine.HMX,)),
    ("t5 DMAIssue", (Engine.LOAD, Engine.STORE)),
)
_HEADER = (
    "core|ucycles|ucycles(%)|pcycles|pcycles(%)|count|out KB|ucycles/KB|pcycles/KB|"
    "stddev(pc/KB)|opdetails"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTimes:
    """One execution: seconds for which each task of `program` holds its engine, and of the whole.

    `clock_hz` is the NSP clock at which it ran.
    """

    program: Program
    held_s: F64
    duration_s: float
    clock_hz: int


def operation_times(program: Program, device: DeviceSpec, options: RunOptions) -> OperationTimes:
    """The tasks of one execution beside the other instances, in the steady state."""
    steady = SimulatorBackend(device, merge_runs=False).steady(program, options)
    execution = steady.execution
    if execution is None:
        raise UsageError(
            "--aic-profiling-type=stats: the passes of a pipeline (-sdp-cluster-sizes) differ, "
            "so that none stands for all; ask for latency alone"
        )
    held_s = (execution.freed - execution.begun) / _PS_PER_S
    return OperationTimes(
        program=program,
        held_s=held_s,
        duration_s=execution.duration_ps / _PS_PER_S,
        clock_hz=steady.clock_hz,
    )


def opstats_text(times: OperationTimes) -> str:
    """The file: a table of operations, then sums and use of each core, then the rate."""
    cores = range(times.program.options.num_cores)
    rows = [row for core in cores for row in _operations(times, core)]
    lines = [grid([_HEADER.split("|"), *rows])]
    for core in cores:
        lines += ["", *_core_lines(times, core)]
    return "\n".join([*lines, "", *_rates(times)]) + "\n"


def _operations(times: OperationTimes, core: int) -> Iterator[list[str]]:
    on_core = times.program.tasks.core == core
    result_kb = work_of(times.program).result_bytes / _KB
    operations, of_task = operations_of(times.program)
    for number in dict.fromkeys(of_task[on_core].tolist()):
        chosen = on_core & (of_task == number)
        cells = _cells(times, times.held_s[chosen], result_kb[chosen])
        yield [f"c{core}", *cells, _detail(operations[number])]


def _cells(times: OperationTimes, held_s: F64, result_kb: F64) -> list[str]:
    seconds, size_kb = float(held_s.sum()), float(result_kb.sum())
    share = f"{seconds / times.duration_s:.2%}"
    ucycles, pcycles = f"{seconds * _TIMER_HZ:.0f}", f"{seconds * times.clock_hz:.0f}"
    counts = [str(len(held_s)), f"{size_kb:.3f}"]
    return [ucycles, share, pcycles, share, *counts, *_ratios(times, held_s, result_kb)]


def _ratios(times: OperationTimes, held_s: F64, result_kb: F64) -> list[str]:
    """Cycles of both clocks by what is made; "-" where nothing is, as in a barrier."""
    makes = result_kb > 0
    if not makes.any():
        return ["-"] * 3
    s_per_kb = held_s.sum() / result_kb.sum()
    spread = (held_s[makes] / result_kb[makes]).std()
    ratios = (s_per_kb * _TIMER_HZ, s_per_kb * times.clock_hz, spread * times.clock_hz)
    return [f"{ratio:.3f}" for ratio in ratios]


def _detail(operation: Operation) -> str:
    """Operation, engine, memory, type."""
    words = (
        operation.name,
        _SHOWN[operation.engine],
        operation.memory.value,
        operation.type_,
    )
    return " ".join(word for word in words if word)


def _core_lines(times: OperationTimes, core: int) -> Iterator[str]:
    tasks = times.program.tasks
    engines = work_of(times.program).engine
    window = times.duration_s * _TIMER_HZ
    pcycles = times.duration_s * times.clock_hz
    yield f"c{core} total: {window:.0f} ucycles, {pcycles:.0f} pcycles"
    for name, members in _THREADS:
        chosen = (tasks.core == core) & np.isin(engines, members)
        # The DMA has two queues: the thread is shown as busy as they are on average.
        busy = float(times.held_s[chosen].sum()) / len(members)
        yield (
            f"c{core} {name}: {window:.0f} ucycles, {busy * times.clock_hz:.0f} pcycles, "
            f"{busy / times.duration_s:.2%} utilisation"
        )
    yield f"c{core} Effective frequency is {times.clock_hz / 1e6:.2f}MHz"


def _rates(times: OperationTimes) -> tuple[str, str]:
    per_s = 1 / times.duration_s
    batch = times.program.options.batch_size
    return (
        f"Device instance batch/s: (1/{times.duration_s:.7f}): {per_s:.4f}",
        f"Device instance inf/s: {per_s * batch:.3f}",
    )
