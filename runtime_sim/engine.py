"""The event loop: integer picoseconds, total order (time, sequence), nothing random.

One source, two ways to run it: compiled by numba, or as plain Python where numba is disabled
(NUMBA_DISABLE_JIT=1). All state is in integer arrays whose columns are named below.

Fluid servers share a rate equally among their transfers, each capped. Sharing is exact and cheap
in virtual time: the server counts the bytes that each transfer has got (`V`), a transfer of b
bytes ends when the count reaches its start plus b, and a change in the number of transfers only
changes how fast the count runs.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

I64 = NDArray[np.int64]

NEVER = 1 << 62
FRACTION_BITS = 30
"""Virtual time counts in 2^-30 bytes: a rate of 1 GB/s is then known to one part in a million."""
_REBASE = 1 << 61

# Servers.
DDR, NOC, PCIE_IN, PCIE_OUT = 0, 1, 2, 3
SERVERS = 4

# Columns of a server's row.
V, LAST, COUNT, NEXT, CAP, TOTAL, MOVED = 0, 1, 2, 3, 4, 5, 6
SERVER_COLUMNS = 7

# Kinds of events; an event's code is kind << 48 | instance << 32 | task.
TASK_DONE, FLOW_BEGIN, PREPARED, SUBMITTED, ARRIVED, LAUNCHED, DRAINED, FINISHED, ASK = range(9)

# Columns of an instance's row.
(
    ASKED,
    PRE_WAIT,
    POST_WAIT,
    THREADS,
    QUEUED,
    SENDING,
    BUFFERS,
    READY,
    RUNNING,
    OUT_WAIT,
    OUT_SENDING,
    UNDRAINED,
    DONE,
    LEFT,
) = range(14)
INSTANCE_COLUMNS = 14

# Entries of the parameter vector.
(
    P_TASKS,
    P_QUEUES,
    P_INSTANCES,
    P_SET_SIZE,
    P_THREADS,
    P_IN_BYTES,
    P_OUT_BYTES,
    P_IN_BUFFERS,
    P_PREPARE,
    P_SUBMIT,
    P_FINISH,
    P_GAP,
    P_STAGGER,
    P_LAUNCH,
    P_PCIE_LATENCY,
    P_WARMUP,
    P_TARGET,
) = range(17)
PARAMETERS = 17


@njit(cache=True)
def _push(heap: I64, size: I64, time: int, code: int) -> None:
    """Add an event; `size` holds the number of events and the next sequence number."""
    n = size[0]
    sequence = size[1]
    size[0] = n + 1
    size[1] = sequence + 1
    while n > 0:
        parent = (n - 1) >> 1
        if heap[parent, 0] <= time:
            break
        heap[n, 0] = heap[parent, 0]
        heap[n, 1] = heap[parent, 1]
        heap[n, 2] = heap[parent, 2]
        n = parent
    heap[n, 0] = time
    heap[n, 1] = sequence
    heap[n, 2] = code


@njit(cache=True)
def _pop(heap: I64, size: I64) -> int:
    """Remove the first event and give its code."""
    code = heap[0, 2]
    n = size[0] - 1
    size[0] = n
    time = heap[n, 0]
    sequence = heap[n, 1]
    last = heap[n, 2]
    hole = 0
    child = 1
    while child < n:
        right = child + 1
        if right < n and (
            heap[right, 0] < heap[child, 0]
            or (heap[right, 0] == heap[child, 0] and heap[right, 1] < heap[child, 1])
        ):
            child = right
        if heap[child, 0] > time or (heap[child, 0] == time and heap[child, 1] > sequence):
            break
        heap[hole, 0] = heap[child, 0]
        heap[hole, 1] = heap[child, 1]
        heap[hole, 2] = heap[child, 2]
        hole = child
        child = 2 * hole + 1
    heap[hole, 0] = time
    heap[hole, 1] = sequence
    heap[hole, 2] = last
    return int(code)


@njit(cache=True)
def _rate(server: I64) -> int:
    """Virtual bytes a picosecond that each transfer gets."""
    return int(min(server[CAP], server[TOTAL] // max(server[COUNT], 1)))


@njit(cache=True)
def _advance(server: I64, now: int) -> None:
    """Bring a server's virtual time up to `now`."""
    if server[COUNT] > 0:
        server[V] += (now - server[LAST]) * _rate(server)
    server[LAST] = now


@njit(cache=True)
def _schedule(server: I64, flows: I64) -> None:
    """Find when the server's next transfer ends."""
    if server[COUNT] == 0:
        server[NEXT] = NEVER
        server[V] = 0
        return
    rate = _rate(server)
    left = flows[0, 0] - server[V]
    server[NEXT] = server[LAST] + (left + rate - 1) // rate if left > 0 else server[LAST]
    if server[V] > _REBASE:
        for index in range(server[COUNT]):
            flows[index, 0] -= server[V]
        server[V] = 0


@njit(cache=True)
def _begin(server: I64, flows: I64, size: I64, now: int, bytes_: int, code: int) -> None:
    """Start a transfer of `bytes_` whose end is `code`."""
    _advance(server, now)
    n = server[COUNT]
    server[COUNT] = n + 1
    server[MOVED] += bytes_
    end = server[V] + (bytes_ << FRACTION_BITS)
    sequence = size[1]
    size[1] = sequence + 1
    while n > 0:
        parent = (n - 1) >> 1
        if flows[parent, 0] <= end:
            break
        flows[n, 0] = flows[parent, 0]
        flows[n, 1] = flows[parent, 1]
        flows[n, 2] = flows[parent, 2]
        n = parent
    flows[n, 0] = end
    flows[n, 1] = sequence
    flows[n, 2] = code
    _schedule(server, flows)


@njit(cache=True)
def _end(server: I64, flows: I64, count: I64, now: int) -> int:
    """Take the transfer that ends now off the server and give its code."""
    _advance(server, now)
    count[0] = server[COUNT]
    code = _pop(flows, count)
    server[COUNT] = count[0]
    _schedule(server, flows)
    return code


@njit(cache=True)
def _start_head(
    now: int,
    instance: int,
    queue: int,
    queue_start: I64,
    queue_tasks: I64,
    head: I64,
    waiting: I64,
    busy: I64,
    busy_ps: I64,
    task: I64,
    heap: I64,
    size: I64,
) -> None:
    """Start the first task of a queue if the engine is free and the task has all it needs."""
    at = queue_start[queue] + head[instance, queue]
    if busy[instance, queue] or at >= queue_start[queue + 1]:
        return
    number = queue_tasks[at]
    if waiting[instance, number] > 0:
        return
    busy[instance, queue] = 1
    busy_ps[instance, queue] -= now
    kind = FLOW_BEGIN if task[number, T_SERVER] >= 0 else TASK_DONE
    code = kind << 48 | instance << 32 | number
    _push(heap, size, now + task[number, T_TIME], code)


# Columns of a task's row: own time or time before its transfer; server (-1: none); bytes; time
# between the end of its transfer and its completion; queue.
T_TIME, T_SERVER, T_BYTES, T_TAIL, T_QUEUE = 0, 1, 2, 3, 4
TASK_COLUMNS = 5


@njit(cache=True)
def simulate(
    parameters: I64,
    task: I64,
    needs: I64,
    next_start: I64,
    next_tasks: I64,
    queue_start: I64,
    queue_tasks: I64,
    server: I64,
    asked_at: I64,
    done_at: I64,
    begun_at: I64,
    ended_at: I64,
    busy_ps: I64,
    marks: I64,
) -> int:
    """Run until every instance has `P_TARGET` completions; returns the number of events.

    `asked_at`, `done_at`, `begun_at`, `ended_at`: [instance, inference], times in ps of the call,
    its completion, and of its execution on the device. `busy_ps`: [instance, queue], summed over
    the window. `server[:, MOVED]` counts the window's bytes. `marks` gets the window's start and
    end: from the last instance's end of warm-up to the end of the run.
    """
    tasks = parameters[P_TASKS]
    queues = parameters[P_QUEUES]
    instances = parameters[P_INSTANCES]
    recorded = asked_at.shape[1]
    heap = np.zeros((instances * (queues + parameters[P_SET_SIZE] + 8) + 64, 3), dtype=np.int64)
    size = np.zeros(2, dtype=np.int64)
    flows = np.zeros((SERVERS, instances * (queues + 2) + 8, 3), dtype=np.int64)
    count = np.zeros(2, dtype=np.int64)
    waiting = np.zeros((instances, tasks), dtype=np.int64)
    head = np.zeros((instances, queues), dtype=np.int64)
    busy = np.zeros((instances, queues), dtype=np.int64)
    state = np.zeros((instances, INSTANCE_COLUMNS), dtype=np.int64)
    started = np.zeros(instances, dtype=np.int64)
    warm = 0
    finished = 0
    events = 0
    now = 0
    for s in range(SERVERS):
        server[s, NEXT] = NEVER
    for i in range(instances):
        for slot in range(parameters[P_SET_SIZE]):
            _push(heap, size, (i + instances * slot) * parameters[P_STAGGER], ASK << 48 | i << 32)
    while finished < instances:
        events += 1
        first = 0
        for s in range(1, SERVERS):
            if server[s, NEXT] < server[first, NEXT]:
                first = s
        if size[0] == 0 or server[first, NEXT] <= heap[0, 0]:
            now = server[first, NEXT]
            code = _end(server[first], flows[first], count, now)
            i = (code >> 32) & 0xFFFF
            number = code & 0xFFFFFFFF
            if first == PCIE_IN:
                state[i, SENDING] = 0
                _push(heap, size, now + parameters[P_PCIE_LATENCY], ARRIVED << 48 | i << 32)
                if state[i, QUEUED] > 0 and state[i, BUFFERS] < parameters[P_IN_BUFFERS]:
                    state[i, QUEUED] -= 1
                    state[i, BUFFERS] += 1
                    state[i, SENDING] = 1
                    begin_in = PCIE_IN << 48 | i << 32
                    _begin(server[PCIE_IN], flows[PCIE_IN], size, now, parameters[P_IN_BYTES], begin_in)
            elif first == PCIE_OUT:
                state[i, OUT_SENDING] = 0
                state[i, UNDRAINED] -= 1
                _push(heap, size, now + parameters[P_PCIE_LATENCY], DRAINED << 48 | i << 32)
                if state[i, OUT_WAIT] > 0:
                    state[i, OUT_WAIT] -= 1
                    state[i, OUT_SENDING] = 1
                    _begin(server[PCIE_OUT], flows[PCIE_OUT], size, now, parameters[P_OUT_BYTES], i << 32)
                if not state[i, RUNNING] and state[i, READY] > 0 and state[i, UNDRAINED] < 2:
                    state[i, READY] -= 1
                    state[i, RUNNING] = 1
                    _push(heap, size, now + parameters[P_LAUNCH], LAUNCHED << 48 | i << 32)
            else:
                queue = task[number, T_QUEUE]
                busy[i, queue] = 0
                busy_ps[i, queue] += now
                head[i, queue] += 1
                _push(heap, size, now + task[number, T_TAIL], TASK_DONE << 48 | i << 32 | number)
                _start_head(now, i, queue, queue_start, queue_tasks, head, waiting, busy, busy_ps, task, heap, size)
            continue
        now = heap[0, 0]
        code = _pop(heap, size)
        kind = code >> 48
        i = (code >> 32) & 0xFFFF
        number = code & 0xFFFFFFFF
        if kind == TASK_DONE:
            queue = task[number, T_QUEUE]
            if task[number, T_SERVER] < 0:
                busy[i, queue] = 0
                busy_ps[i, queue] += now
                head[i, queue] += 1
            for at in range(next_start[number], next_start[number + 1]):
                other = next_tasks[at]
                waiting[i, other] -= 1
                if waiting[i, other] == 0 and task[other, T_QUEUE] != queue:
                    _start_head(now, i, task[other, T_QUEUE], queue_start, queue_tasks, head, waiting, busy, busy_ps, task, heap, size)
            _start_head(now, i, queue, queue_start, queue_tasks, head, waiting, busy, busy_ps, task, heap, size)
            state[i, LEFT] -= 1
            if state[i, LEFT] == 0:
                state[i, RUNNING] = 0
                if started[i] <= recorded:
                    ended_at[i, started[i] - 1] = now
                state[i, BUFFERS] -= 1
                state[i, UNDRAINED] += 1
                if state[i, OUT_SENDING]:
                    state[i, OUT_WAIT] += 1
                else:
                    state[i, OUT_SENDING] = 1
                    _begin(server[PCIE_OUT], flows[PCIE_OUT], size, now, parameters[P_OUT_BYTES], i << 32)
                if not state[i, SENDING] and state[i, QUEUED] > 0:
                    state[i, QUEUED] -= 1
                    state[i, BUFFERS] += 1
                    state[i, SENDING] = 1
                    _begin(server[PCIE_IN], flows[PCIE_IN], size, now, parameters[P_IN_BYTES], i << 32)
                if state[i, READY] > 0 and state[i, UNDRAINED] < 2:
                    state[i, READY] -= 1
                    state[i, RUNNING] = 1
                    _push(heap, size, now + parameters[P_LAUNCH], LAUNCHED << 48 | i << 32)
        elif kind == FLOW_BEGIN:
            s = task[number, T_SERVER]
            _begin(server[s], flows[s], size, now, task[number, T_BYTES], i << 32 | number)
        elif kind == LAUNCHED:
            if started[i] < recorded:
                begun_at[i, started[i]] = now
            started[i] += 1
            state[i, LEFT] = tasks
            for t in range(tasks):
                waiting[i, t] = needs[t]
            for q in range(queues):
                head[i, q] = 0
            for q in range(queues):
                _start_head(now, i, q, queue_start, queue_tasks, head, waiting, busy, busy_ps, task, heap, size)
        elif kind == ASK:
            if state[i, ASKED] < recorded:
                asked_at[i, state[i, ASKED]] = now
            state[i, ASKED] += 1
            state[i, PRE_WAIT] += 1
        elif kind == PREPARED:
            state[i, THREADS] -= 1
            _push(heap, size, now + parameters[P_SUBMIT], SUBMITTED << 48 | i << 32)
        elif kind == SUBMITTED:
            state[i, QUEUED] += 1
            if not state[i, SENDING] and state[i, BUFFERS] < parameters[P_IN_BUFFERS]:
                state[i, QUEUED] -= 1
                state[i, BUFFERS] += 1
                state[i, SENDING] = 1
                _begin(server[PCIE_IN], flows[PCIE_IN], size, now, parameters[P_IN_BYTES], i << 32)
        elif kind == ARRIVED:
            state[i, READY] += 1
            if not state[i, RUNNING] and state[i, UNDRAINED] < 2:
                state[i, READY] -= 1
                state[i, RUNNING] = 1
                _push(heap, size, now + parameters[P_LAUNCH], LAUNCHED << 48 | i << 32)
        elif kind == DRAINED:
            state[i, POST_WAIT] += 1
        else:
            state[i, THREADS] -= 1
            if state[i, DONE] < recorded:
                done_at[i, state[i, DONE]] = now
            state[i, DONE] += 1
            _push(heap, size, now + parameters[P_GAP], ASK << 48 | i << 32)
            if state[i, DONE] == parameters[P_WARMUP]:
                warm += 1
                if warm == instances:
                    marks[0] = now
                    for a in range(instances):
                        for q in range(queues):
                            busy_ps[a, q] = -now if busy[a, q] else 0
                    for s in range(SERVERS):
                        server[s, MOVED] = 0
            if state[i, DONE] == parameters[P_TARGET]:
                finished += 1
        if kind >= PREPARED:
            while state[i, THREADS] < parameters[P_THREADS] and state[i, POST_WAIT] > 0:
                state[i, POST_WAIT] -= 1
                state[i, THREADS] += 1
                _push(heap, size, now + parameters[P_FINISH], FINISHED << 48 | i << 32)
            while state[i, THREADS] < parameters[P_THREADS] and state[i, PRE_WAIT] > 0:
                state[i, PRE_WAIT] -= 1
                state[i, THREADS] += 1
                _push(heap, size, now + parameters[P_PREPARE], PREPARED << 48 | i << 32)
    for a in range(instances):
        for q in range(queues):
            if busy[a, q]:
                busy_ps[a, q] += now
    marks[1] = now
    return events
