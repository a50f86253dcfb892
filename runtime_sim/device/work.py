"""From a program's work numbers to the engine's times, for one device's timing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.program import ENGINE_OF, Engine, Program, TaskKind, Tasks
from compiler.target import DeviceSpec, Sku, device
from runtime_sim.timing import TimingParams

I64 = NDArray[np.int64]

PS_PER_NS = 1000
PS_PER_S = 10**12
FRACTION_BITS = 30
"""Of a server's virtual time; see `runtime_sim.engine`, which the tests hold to the same value."""

_DDR, _NOC, _NONE = 0, 1, -1
_STD = device(Sku.STD)


@dataclass(frozen=True, slots=True)
class PreparedTasks:
    """A program as the engine wants it; see `runtime_sim.engine.World` for the columns.

    `lists` holds the tasks that wait for each task, then the tasks of each queue; `first` and
    `end` [queue] say where a queue's stand.
    """

    task: I64
    lists: I64
    first: I64
    end: I64

    @property
    def queues(self) -> int:
        """Engines of all cores."""
        return len(self.first)


def prepare_tasks(program: Program, timing: TimingParams) -> PreparedTasks:
    """Times in picoseconds, queues by core and engine, and who waits for whom."""
    tasks = program.tasks
    queues = program.options.num_cores * len(Engine)
    engine_of = np.asarray([ENGINE_OF[kind] for kind in TaskKind], dtype=np.int64)
    queue = tasks.core.astype(np.int64) * len(Engine) + engine_of[tasks.kind]
    needs = np.diff(tasks.after_start)
    waiters = np.repeat(np.arange(len(tasks), dtype=np.int64), needs)
    following = waiters[np.argsort(tasks.after, kind="stable")]
    next_start, queue_start = _starts(tasks.after, len(tasks)), _starts(queue, queues)
    columns = [*_costs(tasks, timing), queue, needs, next_start[:-1], next_start[1:]]
    return PreparedTasks(
        task=np.ascontiguousarray(np.stack(columns, axis=1)),
        lists=np.concatenate([following, np.argsort(queue, kind="stable")]).astype(np.int64),
        first=queue_start[:-1] + len(following),
        end=queue_start[1:] + len(following),
    )


def server_rows(spec: DeviceSpec, timing: TimingParams) -> I64:
    """The four shared rates as the engine's server rows; see `runtime_sim.engine`.

    Sustained rates are of a Standard card; another card's scale with its peaks.
    """
    ddr = timing.ddr_bytes_per_s * spec.ddr_bytes_per_s // _STD.ddr_bytes_per_s
    pcie = timing.pcie_bytes_per_s * spec.pcie_bytes_per_s // _STD.pcie_bytes_per_s
    rates = (
        (timing.ddr_core_bytes_per_s, ddr),
        (timing.noc_core_bytes_per_s, timing.noc_bytes_per_s),
        (pcie, pcie),
        (pcie, pcie),
    )
    rows = np.zeros((len(rates), 6), dtype=np.int64)
    for row, (each, total) in zip(rows, rates, strict=True):
        row[3], row[4] = _virtual(each), _virtual(total)
    return rows


def _virtual(bytes_per_s: int) -> int:
    return (bytes_per_s << FRACTION_BITS) // PS_PER_S


def _starts(values: NDArray[np.integer], count: int) -> I64:
    return np.concatenate([[0], np.cumsum(np.bincount(values, minlength=count))]).astype(np.int64)


def _costs(tasks: Tasks, timing: TimingParams) -> tuple[I64, I64, I64, I64]:
    """Own time (or time before the transfer), server, bytes, and time after the transfer."""
    own = np.zeros(len(tasks), dtype=np.int64)
    server = np.full(len(tasks), _NONE, dtype=np.int64)
    tail = np.zeros(len(tasks), dtype=np.int64)
    kind = tasks.kind
    matmul, vector = kind == TaskKind.MATMUL, kind == TaskKind.VECTOR
    own[matmul] = _cycles_ps(matmul_cycles(tasks, timing)[matmul], timing)
    own[vector] = _cycles_ps(vector_cycles(tasks, timing)[vector], timing)
    barrier = kind == TaskKind.BARRIER
    barrier_ns = timing.barrier_ns + timing.barrier_core_ns * tasks.w0
    own[barrier] = barrier_ns[barrier] * PS_PER_NS
    moves = (kind == TaskKind.READ) | (kind == TaskKind.WRITE)
    send = kind == TaskKind.SEND
    issue = _cycles_ps(np.asarray([timing.dma_issue_cycles], dtype=np.int64), timing)[0]
    own[moves | send] = issue
    server[moves], server[send] = _DDR, _NOC
    tail[moves] = timing.ddr_latency_ns * PS_PER_NS
    tail[send] = timing.noc_latency_ns * PS_PER_NS
    return own, server, np.where(moves | send, tasks.w0, 0), tail


def matmul_cycles(tasks: Tasks, timing: TimingParams) -> I64:
    """NSP cycles of each task read as a MATMUL: whole blocks at the sustained efficiency."""
    block = timing.hmx_block
    blocks = -(-tasks.w0 // block) * -(-tasks.w1 // block) * -(-tasks.w2 // block) * tasks.w3
    cycles = blocks * timing.hmx_cycles_per_block * 1000
    return timing.hmx_task_cycles - (-cycles // timing.hmx_efficiency_permille)


def vector_cycles(tasks: Tasks, timing: TimingParams) -> I64:
    """NSP cycles of each task read as a VECTOR: elements at their class's rate."""
    cost = np.asarray(timing.vector_millicycles, dtype=np.int64)
    each = cost[np.where(tasks.kind == TaskKind.VECTOR, tasks.w1, 0)]
    return timing.vector_task_cycles - (-tasks.w0 * each // 1000)


def _cycles_ps(cycles: I64, timing: TimingParams) -> I64:
    """Picoseconds of NSP cycles, rounded up."""
    return -(-cycles * (PS_PER_S // 1000) // (timing.nsp_clock_hz // 1000))
