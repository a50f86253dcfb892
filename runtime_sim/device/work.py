"""From a program's work numbers to the engine's times, for one device's timing."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

BACKGROUND_BITS = 20
"""Of a background load: it counts in 2^-20 transfers."""

# Servers, and the columns of a server's row that are given: see `runtime_sim.engine`.
DDR, NOC, PCIE_IN, PCIE_OUT = 0, 1, 2, 3
SERVERS = 4
VIRTUAL, LAST, NEXT, CAP, TOTAL, MOVED, BACKGROUND, INTEGRAL = range(8)
SERVER_COLUMNS = 8

# Columns of a task's row: own time or time before its transfer; server (-1: none); bytes; time
# between the end of its transfer and its completion; queue; how many tasks it waits for; where in
# `lists` those that wait for it begin and end.
T_TIME, T_SERVER, T_BYTES, T_TAIL, T_QUEUE, T_NEEDS, T_NEXT, T_NEXT_END = range(8)
TASK_COLUMNS = 8

_NONE = -1
_STD = device(Sku.STD)
_INT8_SPEED = _STD.hmx_int8_macs_per_cycle // _STD.hmx_fp16_macs_per_cycle
_MATMULS = (TaskKind.MATMUL, TaskKind.MATMUL_INT8)


@dataclass(frozen=True, slots=True)
class PreparedTasks:
    """A program as the engine wants it; see `runtime_sim.engine.World` for the columns.

    Times are those at the ceiling of the NSP clock; `at` gives them at another.

    `lists` holds the tasks that wait for each task, then the tasks of each queue; `queues`
    [3, queue] says where a queue's stand, first and end, and its pipeline stage.
    """

    task: I64
    lists: I64
    queues: I64
    run: I64
    cycles: I64
    fixed_ps: I64

    def at(self, clock_hz: int) -> PreparedTasks:
        """The same at another NSP clock; each of its tasks is rounded up by itself."""
        task = self.task.copy()
        task[:, T_TIME] = _sums(self.run, _cycles_ps(self.cycles, clock_hz) + self.fixed_ps)
        return replace(self, task=task)


def prepare_tasks(
    program: Program, timing: TimingParams, *, merge_runs: bool = True
) -> PreparedTasks:
    """Times in picoseconds, queues by core and engine, and who waits for whom.

    With `merge_runs` tasks that run back to back on one engine, whatever happens elsewhere, become
    one task: no time changes, only the number of events. Not in a pipeline, where ends of stages
    that fall together are told apart by the order of events.
    """
    tasks = program.tasks
    engine_of = np.asarray([ENGINE_OF[kind] for kind in TaskKind], dtype=np.int64)
    queue = tasks.core.astype(np.int64) * len(Engine) + engine_of[tasks.kind]
    cycles, fixed_ps, server, size, tail = _costs(tasks, timing)
    waits = _waits(tasks, queue, server)
    order = np.argsort(queue, kind="stable")
    run = np.arange(len(tasks))
    if merge_runs and not program.stage_cores:
        run = _runs(order, queue, server, waits)
    first, last = _run_ends(run)
    own = _sums(run, _cycles_ps(cycles, timing.nsp_clock_hz) + fixed_ps)
    rows = np.stack([own, server[last], size[last], tail[last], queue[first]], axis=1)
    lane = rows[:, T_QUEUE] * (SERVERS + 1) + rows[:, T_SERVER] - _NONE
    source, target = _last_of_each_lane(run[waits[0]], run[waits[1]], lane)
    return _prepared(rows, source, target, _stages(program), (run, cycles, fixed_ps))


def _stages(program: Program) -> I64:
    """The pipeline stage of each queue."""
    cores = program.stage_cores or (program.options.num_cores,)
    return np.repeat(np.arange(len(cores)), np.asarray(cores) * len(Engine))


def _prepared(
    rows: I64, source: I64, target: I64, stages: I64, costs: tuple[I64, I64, I64]
) -> PreparedTasks:
    count, queues = len(rows), len(stages)
    following = target[np.argsort(source, kind="stable")]
    next_start, queue_start = _starts(source, count), _starts(rows[:, 4], queues)
    needs = np.bincount(target, minlength=count)
    borders = queue_start + len(following)
    columns = [rows, needs[:, None], next_start[:-1, None], next_start[1:, None]]
    return PreparedTasks(
        task=np.ascontiguousarray(np.concatenate(columns, axis=1)).astype(np.int64),
        lists=np.concatenate([following, np.argsort(rows[:, 4], kind="stable")]).astype(np.int64),
        queues=np.stack([borders[:-1], borders[1:], stages]).astype(np.int64),
        run=costs[0],
        cycles=costs[1],
        fixed_ps=costs[2],
    )


def _waits(tasks: Tasks, queue: I64, server: I64) -> tuple[I64, I64]:
    """Dependencies as (earlier, later), without those that an engine's order keeps anyway."""
    later = np.repeat(np.arange(len(tasks), dtype=np.int64), np.diff(tasks.after_start))
    earlier = tasks.after.astype(np.int64)
    real = (queue[earlier] != queue[later]) | (server[earlier] != _NONE)
    return earlier[real], later[real]


def _runs(order: I64, queue: I64, server: I64, waits: tuple[I64, I64]) -> I64:
    """For each task the number of its run; runs are numbered by their first task."""
    waited_for = np.zeros(len(order), dtype=bool)
    waiting = np.zeros(len(order), dtype=bool)
    waited_for[waits[0]], waiting[waits[1]] = True, True
    before, after = order[:-1], order[1:]
    joined = (queue[before] == queue[after]) & (server[before] == _NONE)
    joined &= ~waited_for[before] & ~waiting[after]
    heads = order[np.concatenate([[True], ~joined])]
    member_of = np.cumsum(np.concatenate([[0], ~joined]))
    rank = np.empty(len(heads), dtype=np.int64)
    rank[np.argsort(heads, kind="stable")] = np.arange(len(heads))
    run = np.empty(len(order), dtype=np.int64)
    run[order] = rank[member_of]
    return run


def _run_ends(run: I64) -> tuple[I64, I64]:
    """The first and the last task of each run; members of a run stand in order."""
    count = int(run.max()) + 1
    first = np.full(count, len(run), dtype=np.int64)
    np.minimum.at(first, run, np.arange(len(run)))
    last = np.zeros(count, dtype=np.int64)
    np.maximum.at(last, run, np.arange(len(run)))
    return first, last


def _sums(run: I64, values: I64) -> I64:
    total = np.zeros(int(run.max()) + 1, dtype=np.int64)
    np.add.at(total, run, values)
    return total


def _last_of_each_lane(source: I64, target: I64, lane: I64) -> tuple[I64, I64]:
    """Of the tasks of one queue and server that a task waits for, the last: it is done last.

    What another server moves may be done later though it began before, by that one's latency.
    """
    if not len(source):
        return source, target
    order = np.lexsort((source, lane[source], target))
    source, target = source[order], target[order]
    group = np.stack([lane[source], target])
    last = np.concatenate([np.any(group[:, 1:] != group[:, :-1], axis=0), [True]])
    return source[last], target[last]


def server_rows(spec: DeviceSpec, timing: TimingParams) -> I64:
    """The four shared rates as the engine's server rows; see `runtime_sim.engine`.

    Sustained rates are of a Standard card; another card's scale with its peaks.
    """
    ddr = timing.ddr_bytes_per_s * spec.ddr_bytes_per_s // _STD.ddr_bytes_per_s
    pcie_in, pcie_out = (
        rate * spec.pcie_bytes_per_s // _STD.pcie_bytes_per_s
        for rate in (timing.pcie_in_bytes_per_s, timing.pcie_out_bytes_per_s)
    )
    rates = (
        (timing.ddr_core_bytes_per_s, ddr),
        (timing.noc_core_bytes_per_s, timing.noc_bytes_per_s),
        (pcie_in, pcie_in),
        (pcie_out, pcie_out),
    )
    rows = np.zeros((SERVERS, SERVER_COLUMNS), dtype=np.int64)
    for row, (each, total) in zip(rows, rates, strict=True):
        row[CAP], row[TOTAL] = _virtual(each), _virtual(total)
    return rows


def _virtual(rate_per_s: int) -> int:
    return (rate_per_s << FRACTION_BITS) // PS_PER_S


def bytes_per_s(virtual: I64) -> NDArray[np.float64]:
    """The rates of a server's row in bytes a second."""
    return virtual / (1 << FRACTION_BITS) * PS_PER_S


def lump(duration_ps: int) -> PreparedTasks:
    """A program of which only is known how long it takes: one task on one engine."""
    rows = np.asarray([[duration_ps, _NONE, 0, 0, 0]], dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    return _prepared(rows, none, none, zero, (zero, zero, rows[:, T_TIME]))


def _starts(values: NDArray[np.integer], count: int) -> I64:
    return np.concatenate([[0], np.cumsum(np.bincount(values, minlength=count))]).astype(np.int64)


def _costs(tasks: Tasks, timing: TimingParams) -> tuple[I64, I64, I64, I64, I64]:
    """Cycles, picoseconds whatever the clock, server, bytes, and time after the transfer.

    Cycles and picoseconds make a task's own time, or the time before its transfer.
    """
    cycles, fixed_ps, tail = np.zeros((3, len(tasks)), dtype=np.int64)
    server = np.full(len(tasks), _NONE, dtype=np.int64)
    kind = tasks.kind
    matmul, vector = np.isin(kind, _MATMULS), kind == TaskKind.VECTOR
    cycles[matmul] = matmul_cycles(tasks, timing)[matmul]
    cycles[vector] = vector_cycles(tasks, timing)[vector]
    first = first_of_operators(tasks)
    cycles[first] += operator_cycles(tasks, timing)[first]
    barrier = kind == TaskKind.BARRIER
    barrier_ns = timing.barrier_ns + timing.barrier_core_ns * tasks.w0
    fixed_ps[barrier] = barrier_ns[barrier] * PS_PER_NS
    moves = (kind == TaskKind.READ) | (kind == TaskKind.WRITE)
    send = kind == TaskKind.SEND
    cycles[moves | send] = timing.dma_issue_cycles
    server[moves], server[send] = DDR, NOC
    # DDR is slower than the network, for one core and for all: what goes to several cores on its
    # way from there is only later by the network's latency.
    tail[moves] = timing.ddr_latency_ns * PS_PER_NS
    tail[moves & (tasks.receivers > 0)] += timing.noc_latency_ns * PS_PER_NS
    tail[send] = timing.noc_latency_ns * PS_PER_NS
    return cycles, fixed_ps, server, np.where(moves | send, tasks.w0, 0), tail


def first_of_operators(tasks: Tasks) -> I64:
    """The first computing task of each layer on each core."""
    computing = np.flatnonzero(np.isin(tasks.kind, (*_MATMULS, TaskKind.VECTOR)))
    place = tasks.layer[computing].astype(np.int64) << 16 | tasks.core[computing]
    return computing[np.unique(place, return_index=True)[1]]


def operator_cycles(tasks: Tasks, timing: TimingParams) -> I64:
    """NSP cycles to come to an operator, which grow with the cores that take part.

    One entry a task, for the operator that it belongs to.
    """
    matmul = np.isin(tasks.kind, _MATMULS)
    own = np.where(matmul, timing.hmx_operator_cycles, timing.hvx_operator_cycles)
    cores = int(tasks.core.max(initial=0))
    return own.astype(np.int64) + timing.operator_core_cycles * cores


def matmul_cycles(tasks: Tasks, timing: TimingParams) -> I64:
    """NSP cycles of each task read as a product: whole blocks at the sustained efficiency.

    With 8-bit operands HMX does twice the MACs a cycle (`DeviceSpec.hmx_int8_macs_per_cycle`).
    """
    blocks = matmul_blocks(tasks, timing)
    speed = np.where(tasks.kind == TaskKind.MATMUL_INT8, _INT8_SPEED, 1)
    cycles = -(-blocks * timing.hmx_cycles_per_block * 1000 // speed)
    return timing.hmx_task_cycles - (-cycles // timing.hmx_efficiency_permille)


def matmul_blocks(tasks: Tasks, timing: TimingParams) -> I64:
    """Blocks of rows, inputs and outputs of each task read as a product."""
    block = timing.hmx_block
    return -(-tasks.w0 // block) * -(-tasks.w1 // block) * -(-tasks.w2 // block) * tasks.w3


def vector_cycles(tasks: Tasks, timing: TimingParams) -> I64:
    """NSP cycles of each task read as a VECTOR: elements at their class's rate."""
    cost = np.asarray(timing.vector_millicycles, dtype=np.int64)
    each = cost[np.where(tasks.kind == TaskKind.VECTOR, tasks.w1, 0)]
    return timing.vector_task_cycles - (-tasks.w0 * each // 1000)


def _cycles_ps(cycles: I64, clock_hz: int) -> I64:
    """Picoseconds of NSP cycles, rounded up; the clock counts in kilohertz."""
    return -(-cycles * (PS_PER_S // 1000) // (clock_hz // 1000))
