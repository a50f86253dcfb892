"""The event loop: integer picoseconds, total order (time, sequence), nothing random.

One source, two ways to run it: compiled by numba, or as plain Python where numba is disabled
(NUMBA_DISABLE_JIT=1). All state is in integer arrays, passed one by one because numba counts
references for every array that it takes out of a container; `World` names and describes them.

Fluid servers share a rate equally among their transfers, each capped, and a background that stands
for the transfers of what is not simulated. Sharing is exact and cheap
in virtual time: the server counts the bytes that each transfer has got (`VIRTUAL`), a transfer of
b bytes ends when the count reaches its start plus b, and a change in the number of transfers only
changes how fast the count runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from runtime_sim.device.work import (
    BACKGROUND,
    BACKGROUND_BITS,
    CAP,
    FRACTION_BITS,
    INTEGRAL,
    LAST,
    MOVED,
    NEXT,
    PCIE_IN,
    PCIE_OUT,
    SERVERS,
    T_BYTES,
    T_NEEDS,
    T_NEXT,
    T_NEXT_END,
    T_QUEUE,
    T_SERVER,
    T_TAIL,
    T_TIME,
    TOTAL,
    VIRTUAL,
)
from runtime_sim.host.moments import Moment

I64 = NDArray[np.int64]

_inlined = njit(cache=True, inline="always")
"""For what runs at every event: a call that passes ten arrays takes as long as the work itself
(measured: 105 ns an event in place of 200)."""

NEVER = 1 << 62
_REBASE = 1 << 61

# Heaps: of events, and of each server's transfers.
EVENTS = 0
TRANSFERS = 1
HEAPS = TRANSFERS + SERVERS

# Kinds of events; an event's code is kind << 48 | instance << 32 | task.
TASK_DONE, FLOW_BEGIN, PREPARED, SUBMITTED, ARRIVED, LAUNCHED, DRAINED, FINISHED, ASK = range(9)

# Layers of `times`.
(
    ASKED_AT,
    PREPARING_AT,
    PREPARED_AT,
    SUBMITTED_AT,
    SENDING_AT,
    ARRIVED_AT,
    BEGUN_AT,
    ENDED_AT,
    DRAINED_AT,
    FINISHING_AT,
    DONE_AT,
) = (int(moment) for moment in Moment)
TIMES = len(Moment)

# Columns of an instance's row; from PASSED on, how many inferences passed each moment.
(
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
    LEFT,
    FILLED,
    PASSED,
) = range(14)
INSTANCE_COLUMNS = PASSED + TIMES
"""FILLED has a bit for each stage of a pipeline that holds an inference in the pass at hand."""

OUT_BUFFERS = 2
"""Outputs that may wait on the card: the output transfer overlaps the next execution, as the
vendor's runtime has it (two semaphores and a doorbell around each output buffer)."""

# Columns of a queue: next task and end in `lists`, whether its engine works, for how long it has,
# its first task and the pipeline stage that its core belongs to.
HEAD, END, BUSY, BUSY_PS, FIRST, STAGE = range(6)
QUEUE_COLUMNS = 6

# Entries of the vector of values: first what is given ...
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
    P_IN_LATENCY,
    P_OUT_LATENCY,
    P_WARMUP,
    P_TARGET,
    P_STAGES,
) = range(19)
PARAMETERS = 19
# ... then counters: next sequence number, window, instances past warm-up and done, heap sizes.
SEQUENCE, WINDOW_START, WINDOW_END, WARM, COMPLETE, SIZE = range(PARAMETERS, PARAMETERS + 6)
VALUES = SIZE + HEAPS


class World(NamedTuple):
    """The arrays of a run, in the order in which functions take them.

    values: `P_*` and counters. task [task, `T_*`]. lists: tasks that wait for a task, tasks of a
    queue. queue [instance, queue, columns]: a queue is an engine of a core. waiting [instance,
    task]: dependencies not done yet. state [instance, columns]. server [server, columns]. heap
    [heap, entry, (time, sequence, code)]. times [`*_AT`, instance, inference] of each
    `Moment` in picoseconds.
    """

    values: I64
    task: I64
    lists: I64
    queue: I64
    waiting: I64
    state: I64
    server: I64
    heap: I64
    times: I64


@_inlined
def _push(values: I64, heap: I64, h: int, time: int, code: int) -> None:
    """Add an entry to heap `h`; of equal times the earlier added comes first."""
    n = values[SIZE + h]
    sequence = values[SEQUENCE]
    values[SIZE + h] = n + 1
    values[SEQUENCE] = sequence + 1
    while n > 0:
        parent = (n - 1) >> 1
        if heap[h, parent, 0] <= time:
            break
        heap[h, n, 0] = heap[h, parent, 0]
        heap[h, n, 1] = heap[h, parent, 1]
        heap[h, n, 2] = heap[h, parent, 2]
        n = parent
    heap[h, n, 0] = time
    heap[h, n, 1] = sequence
    heap[h, n, 2] = code


@_inlined
def _before(heap: I64, h: int, entry: int, time: int, sequence: int) -> bool:
    """Whether an entry of heap `h` comes before (time, sequence)."""
    if heap[h, entry, 0] != time:
        return bool(heap[h, entry, 0] < time)
    return bool(heap[h, entry, 1] < sequence)


@_inlined
def _pop(values: I64, heap: I64, h: int) -> int:
    """Remove the first entry of heap `h` and give its code."""
    code = heap[h, 0, 2]
    n = values[SIZE + h] - 1
    values[SIZE + h] = n
    time, sequence, last = heap[h, n, 0], heap[h, n, 1], heap[h, n, 2]
    hole, child = 0, 1
    while child < n:
        right = child + 1
        if right < n and _before(heap, h, right, heap[h, child, 0], heap[h, child, 1]):
            child = right
        if not _before(heap, h, child, time, sequence):
            break
        heap[h, hole, 0] = heap[h, child, 0]
        heap[h, hole, 1] = heap[h, child, 1]
        heap[h, hole, 2] = heap[h, child, 2]
        hole = child
        child = 2 * hole + 1
    heap[h, hole, 0] = time
    heap[h, hole, 1] = sequence
    heap[h, hole, 2] = last
    return int(code)


@_inlined
def _event(values: I64, heap: I64, time: int, kind: int, i: int, task: int) -> None:
    _push(values, heap, EVENTS, time, kind << 48 | i << 32 | task)


@_inlined
def _stamp(state: I64, times: I64, moment: int, i: int, now: int) -> None:
    """The next inference of an instance has come to a moment; inferences do not overtake."""
    number = state[i, PASSED + moment]
    if number < times.shape[2]:
        times[moment, i, number] = now
    state[i, PASSED + moment] = number + 1


@_inlined
def _rate(values: I64, server: I64, s: int) -> int:
    """Virtual bytes a picosecond that each transfer of server `s` gets."""
    flying = max(values[SIZE + TRANSFERS + s], 1) << BACKGROUND_BITS
    shared = (server[s, TOTAL] << BACKGROUND_BITS) // (flying + server[s, BACKGROUND])
    return int(min(server[s, CAP], shared))


@_inlined
def _advance(values: I64, server: I64, s: int, now: int) -> None:
    """Bring a server's virtual time up to `now`."""
    flying = values[SIZE + TRANSFERS + s]
    if flying > 0:
        passed = now - server[s, LAST]
        server[s, VIRTUAL] += passed * _rate(values, server, s)
        server[s, INTEGRAL] += passed * flying
    server[s, LAST] = now


@_inlined
def _find_next(values: I64, server: I64, heap: I64, s: int) -> None:
    """Find when the server's next transfer ends."""
    entries = values[SIZE + TRANSFERS + s]
    if entries == 0:
        server[s, NEXT] = NEVER
        server[s, VIRTUAL] = 0
        return
    rate = _rate(values, server, s)
    left = max(heap[TRANSFERS + s, 0, 0] - server[s, VIRTUAL], 0)
    server[s, NEXT] = server[s, LAST] + (left + rate - 1) // rate
    if server[s, VIRTUAL] > _REBASE:
        for entry in range(entries):
            heap[TRANSFERS + s, entry, 0] -= server[s, VIRTUAL]
        server[s, VIRTUAL] = 0


@_inlined
def _transfer(
    values: I64, server: I64, heap: I64, now: int, s: int, bytes_: int, code: int
) -> None:
    """Start a transfer of `bytes_` on server `s`; it gives `code` when it ends."""
    _advance(values, server, s, now)
    end = server[s, VIRTUAL] + (bytes_ << FRACTION_BITS)
    _push(values, heap, TRANSFERS + s, end, code)
    server[s, MOVED] += bytes_
    _find_next(values, server, heap, s)


@_inlined
def _start_head(
    values: I64,
    task: I64,
    lists: I64,
    queue: I64,
    waiting: I64,
    heap: I64,
    now: int,
    i: int,
    q: int,
) -> None:
    """Start the first task of a queue if the engine is free and the task has all it needs."""
    if queue[i, q, BUSY] or queue[i, q, HEAD] >= queue[i, q, END]:
        return
    number = lists[queue[i, q, HEAD]]
    if waiting[i, number] > 0:
        return
    queue[i, q, BUSY] = 1
    queue[i, q, BUSY_PS] -= now
    kind = FLOW_BEGIN if task[number, T_SERVER] >= 0 else TASK_DONE
    _event(values, heap, now + task[number, T_TIME], kind, i, number)


@_inlined
def _free_engine(queue: I64, now: int, i: int, q: int) -> None:
    """The task at a queue's head no longer occupies its engine."""
    queue[i, q, BUSY] = 0
    queue[i, q, BUSY_PS] += now
    queue[i, q, HEAD] += 1


@njit(cache=True)
def _bring_input(
    values: I64, state: I64, server: I64, heap: I64, times: I64, now: int, i: int
) -> None:
    """Send the next submitted input to the card if a buffer is free and none is on its way."""
    full = state[i, BUFFERS] >= values[P_IN_BUFFERS]
    if state[i, SENDING] or state[i, QUEUED] == 0 or full:
        return
    state[i, QUEUED] -= 1
    state[i, BUFFERS] += 1
    state[i, SENDING] = 1
    _stamp(state, times, SENDING_AT, i, now)
    _transfer(values, server, heap, now, PCIE_IN, values[P_IN_BYTES], i << 32)


@njit(cache=True)
def _send_output(values: I64, state: I64, server: I64, heap: I64, now: int, i: int) -> None:
    """Send the next output to the host if none is on its way."""
    if state[i, OUT_SENDING] or state[i, OUT_WAIT] == 0:
        return
    state[i, OUT_WAIT] -= 1
    state[i, OUT_SENDING] = 1
    _transfer(values, server, heap, now, PCIE_OUT, values[P_OUT_BYTES], i << 32)


@njit(cache=True)
def _execute(values: I64, state: I64, heap: I64, now: int, i: int) -> None:
    """Launch a pass if it has an input or an inference half done, and an output buffer is free."""
    if state[i, RUNNING] or state[i, UNDRAINED] >= OUT_BUFFERS:
        return
    if state[i, READY] == 0 and state[i, FILLED] == 0:
        return
    filled = state[i, FILLED] << 1
    if state[i, READY] > 0:
        state[i, READY] -= 1
        filled |= 1
    state[i, FILLED] = filled
    state[i, RUNNING] = 1
    _event(values, heap, now + values[P_LAUNCH], LAUNCHED, i, 0)


@njit(cache=True)
def _launch(
    values: I64,
    task: I64,
    lists: I64,
    queue: I64,
    waiting: I64,
    state: I64,
    heap: I64,
    times: I64,
    now: int,
    i: int,
) -> None:
    """Begin a pass: nothing is done yet, and each engine's first task may start."""
    if state[i, FILLED] & 1:
        _stamp(state, times, BEGUN_AT, i, now)
    left = 0
    for number in range(values[P_TASKS]):
        waiting[i, number] = task[number, T_NEEDS]
    for q in range(values[P_QUEUES]):
        queue[i, q, HEAD] = queue[i, q, END]
        if state[i, FILLED] >> queue[i, q, STAGE] & 1:
            queue[i, q, HEAD] = queue[i, q, FIRST]
            left += queue[i, q, END] - queue[i, q, FIRST]
    state[i, LEFT] = left
    for q in range(values[P_QUEUES]):
        _start_head(values, task, lists, queue, waiting, heap, now, i, q)


@njit(cache=True)
def _finish_execution(
    values: I64, state: I64, server: I64, heap: I64, times: I64, now: int, i: int
) -> None:
    """The result may go to the host, the next input may come, the next pass may run."""
    state[i, RUNNING] = 0
    if state[i, FILLED] & 1:
        state[i, BUFFERS] -= 1
    last = 1 << (values[P_STAGES] - 1)
    if state[i, FILLED] & last:
        _stamp(state, times, ENDED_AT, i, now)
        state[i, UNDRAINED] += 1
        state[i, OUT_WAIT] += 1
    state[i, FILLED] &= last - 1
    _send_output(values, state, server, heap, now, i)
    _bring_input(values, state, server, heap, times, now, i)
    _execute(values, state, heap, now, i)


@_inlined
def _task_done(
    values: I64,
    task: I64,
    lists: I64,
    queue: I64,
    waiting: I64,
    state: I64,
    server: I64,
    heap: I64,
    times: I64,
    now: int,
    i: int,
    number: int,
) -> None:
    """Tasks that wait for this one come nearer; engines that may start now do."""
    own = task[number, T_QUEUE]
    if task[number, T_SERVER] < 0:
        _free_engine(queue, now, i, own)
    for at in range(task[number, T_NEXT], task[number, T_NEXT_END]):
        other = lists[at]
        waiting[i, other] -= 1
        if waiting[i, other] == 0 and task[other, T_QUEUE] != own:
            _start_head(values, task, lists, queue, waiting, heap, now, i, task[other, T_QUEUE])
    _start_head(values, task, lists, queue, waiting, heap, now, i, own)
    state[i, LEFT] -= 1
    if state[i, LEFT] == 0:
        _finish_execution(values, state, server, heap, times, now, i)


@_inlined
def _transfer_done(
    values: I64,
    task: I64,
    lists: I64,
    queue: I64,
    waiting: I64,
    state: I64,
    server: I64,
    heap: I64,
    times: I64,
    now: int,
    s: int,
) -> None:
    """The next transfer of a server ends: a task's bytes, an input or an output."""
    _advance(values, server, s, now)
    code = _pop(values, heap, TRANSFERS + s)
    _find_next(values, server, heap, s)
    i, number = (code >> 32) & 0xFFFF, code & 0xFFFFFFFF
    if s == PCIE_IN:
        state[i, SENDING] = 0
        _event(values, heap, now + values[P_IN_LATENCY], ARRIVED, i, 0)
        _bring_input(values, state, server, heap, times, now, i)
    elif s == PCIE_OUT:
        state[i, OUT_SENDING] = 0
        state[i, UNDRAINED] -= 1
        _event(values, heap, now + values[P_OUT_LATENCY], DRAINED, i, 0)
        _send_output(values, state, server, heap, now, i)
        _execute(values, state, heap, now, i)
    else:
        _free_engine(queue, now, i, task[number, T_QUEUE])
        _event(values, heap, now + task[number, T_TAIL], TASK_DONE, i, number)
        _start_head(values, task, lists, queue, waiting, heap, now, i, task[number, T_QUEUE])


@njit(cache=True)
def _complete(
    values: I64, queue: I64, state: I64, server: I64, heap: I64, times: I64, now: int, i: int
) -> None:
    """An inference's result is in the host's hands; the slot asks again after a gap."""
    state[i, THREADS] -= 1
    _stamp(state, times, DONE_AT, i, now)
    _event(values, heap, now + values[P_GAP], ASK, i, 0)
    if state[i, PASSED + DONE_AT] == values[P_WARMUP]:
        values[WARM] += 1
        if values[WARM] == values[P_INSTANCES]:
            _open_window(values, queue, server, now)
    if state[i, PASSED + DONE_AT] == values[P_TARGET]:
        values[COMPLETE] += 1


@njit(cache=True)
def _open_window(values: I64, queue: I64, server: I64, now: int) -> None:
    """Counters start anew once every instance is past its warm-up."""
    values[WINDOW_START] = now
    for i in range(values[P_INSTANCES]):
        for q in range(values[P_QUEUES]):
            queue[i, q, BUSY_PS] = -now if queue[i, q, BUSY] else 0
    for s in range(SERVERS):
        _advance(values, server, s, now)
        server[s, MOVED] = 0
        server[s, INTEGRAL] = 0


@njit(cache=True)
def _close_window(values: I64, queue: I64, server: I64, now: int) -> None:
    values[WINDOW_END] = now
    for s in range(SERVERS):
        _advance(values, server, s, now)
    for i in range(values[P_INSTANCES]):
        for q in range(values[P_QUEUES]):
            if queue[i, q, BUSY]:
                queue[i, q, BUSY_PS] += now


@njit(cache=True)
def _ask(state: I64, times: I64, now: int, i: int) -> None:
    _stamp(state, times, ASKED_AT, i, now)
    state[i, PRE_WAIT] += 1


@njit(cache=True)
def _use_threads(values: I64, state: I64, heap: I64, times: I64, now: int, i: int) -> None:
    """Free host threads take what waits: results first, then new inputs."""
    while state[i, THREADS] < values[P_THREADS] and state[i, POST_WAIT] > 0:
        state[i, POST_WAIT] -= 1
        state[i, THREADS] += 1
        _stamp(state, times, FINISHING_AT, i, now)
        _event(values, heap, now + values[P_FINISH], FINISHED, i, 0)
    while state[i, THREADS] < values[P_THREADS] and state[i, PRE_WAIT] > 0:
        state[i, PRE_WAIT] -= 1
        state[i, THREADS] += 1
        _stamp(state, times, PREPARING_AT, i, now)
        _event(values, heap, now + values[P_PREPARE], PREPARED, i, 0)


@njit(cache=True)
def _host_event(
    values: I64,
    queue: I64,
    state: I64,
    server: I64,
    heap: I64,
    times: I64,
    now: int,
    kind: int,
    i: int,
) -> None:
    if kind == ASK:
        _ask(state, times, now, i)
    elif kind == PREPARED:
        state[i, THREADS] -= 1
        _stamp(state, times, PREPARED_AT, i, now)
        _event(values, heap, now + values[P_SUBMIT], SUBMITTED, i, 0)
    elif kind == SUBMITTED:
        state[i, QUEUED] += 1
        _stamp(state, times, SUBMITTED_AT, i, now)
        _bring_input(values, state, server, heap, times, now, i)
    elif kind == ARRIVED:
        state[i, READY] += 1
        _stamp(state, times, ARRIVED_AT, i, now)
        _execute(values, state, heap, now, i)
    elif kind == DRAINED:
        state[i, POST_WAIT] += 1
        _stamp(state, times, DRAINED_AT, i, now)
    else:
        _complete(values, queue, state, server, heap, times, now, i)
    _use_threads(values, state, heap, times, now, i)


@_inlined
def _first_server(server: I64) -> int:
    """The server whose next transfer ends first; the lower number where two end together."""
    first = 0
    for s in range(1, SERVERS):
        if server[s, NEXT] < server[first, NEXT]:
            first = s
    return first


@njit(cache=True)
def simulate(
    values: I64,
    task: I64,
    lists: I64,
    queue: I64,
    waiting: I64,
    state: I64,
    server: I64,
    heap: I64,
    times: I64,
) -> int:
    """Run until every instance has `P_TARGET` completions; returns the number of events.

    At equal times a transfer's end comes before other events.
    """
    now, events = 0, 0
    while values[COMPLETE] < values[P_INSTANCES]:
        events += 1
        s = _first_server(server)
        if values[SIZE + EVENTS] == 0 or server[s, NEXT] <= heap[EVENTS, 0, 0]:
            now = server[s, NEXT]
            _transfer_done(values, task, lists, queue, waiting, state, server, heap, times, now, s)
            continue
        now = heap[EVENTS, 0, 0]
        code = _pop(values, heap, EVENTS)
        kind, i, number = code >> 48, (code >> 32) & 0xFFFF, code & 0xFFFFFFFF
        if kind == TASK_DONE:
            _task_done(
                values, task, lists, queue, waiting, state, server, heap, times, now, i, number
            )
        elif kind == FLOW_BEGIN:
            s, size = task[number, T_SERVER], task[number, T_BYTES]
            _transfer(values, server, heap, now, s, size, i << 32 | number)
        elif kind == LAUNCHED:
            _launch(values, task, lists, queue, waiting, state, heap, times, now, i)
            if state[i, LEFT] == 0:  # the stages of this pass have no work
                _finish_execution(values, state, server, heap, times, now, i)
        else:
            _host_event(values, queue, state, server, heap, times, now, kind, i)
    _close_window(values, queue, server, now)
    return events


def new_world(parameters: I64, task: I64, lists: I64, queues_: I64, server: I64) -> World:
    """The state before anything has happened, with each slot's first call in the future.

    `queues_` [3, queue] says where in `lists` each queue's tasks begin and end, and its stage.
    """
    queues, instances = int(parameters[P_QUEUES]), int(parameters[P_INSTANCES])
    set_size, stagger = int(parameters[P_SET_SIZE]), int(parameters[P_STAGGER])
    queue = _zeros(instances, queues, QUEUE_COLUMNS)
    queue[:, :, FIRST], queue[:, :, END], queue[:, :, STAGE] = queues_
    server[:, NEXT] = NEVER
    world = World(
        values=np.concatenate([parameters, _zeros(VALUES - PARAMETERS)]),
        task=task,
        lists=lists,
        queue=queue,
        waiting=_zeros(instances, int(parameters[P_TASKS])),
        state=_zeros(instances, INSTANCE_COLUMNS),
        server=server,
        heap=_zeros(HEAPS, instances * (2 * queues + 2 * set_size + 8), 3),
        times=_zeros(TIMES, instances, 2 * int(parameters[P_TARGET]) + set_size),
    )
    for i in range(instances):
        for slot in range(set_size):
            _event(world.values, world.heap, (i + instances * slot) * stagger, ASK, i, 0)
    return world


def _zeros(*shape: int) -> I64:
    return np.zeros(shape, dtype=np.int64)
