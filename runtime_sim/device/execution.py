"""One execution of a program on its cores: when each task begins and ends.

Every engine runs its tasks in a fixed order, so all that a task waits for is known beforehand: the
task before it on its engine, and its dependencies. Its begin is the latest of their ends, however
the ends were found; only transfers, which share a rate with others, must be taken in the order of
time. So computing tasks are followed as far as they go without an event, and events are left for
the begins and ends of transfers. The result is that of an event for each task, to the picosecond
(the tests hold one against the other), several times sooner.

Other instances of the program appear as a background on each server: the mean number of transfers
that they have in flight, see `runtime_sim.steady`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from runtime_sim.device.work import (
    BACKGROUND_BITS,
    CAP,
    DDR,
    FRACTION_BITS,
    NOC,
    T_BYTES,
    T_NEEDS,
    T_NEXT,
    T_NEXT_END,
    T_QUEUE,
    T_SERVER,
    T_TAIL,
    T_TIME,
    TOTAL,
    PreparedTasks,
)

I64 = NDArray[np.int64]

NEVER = 1 << 62

# Columns of a server's state: virtual time, when it was brought up to date, next end, transfers in
# flight, and their integral over time.
_VIRTUAL, _LAST, _NEXT, _FLYING, _INTEGRAL = range(5)

# Heaps: the transfers of each server by their virtual end, and the transfers to come by time.
_COMING = 2

_inlined = njit(cache=True, inline="always")


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution, times in picoseconds from its launch.

    `begun` and `ended` [task]: a task's own time on its engine, or a transfer's from its issue to
    its completion. `freed` [task]: when its engine was free again. `busy_ps` [queue]. `flying`
    [2]: the integral over time of the transfers in flight at DDR and on the network. `events`
    counts begins and ends of transfers.
    """

    duration_ps: int
    begun: I64
    freed: I64
    ended: I64
    busy_ps: I64
    flying: I64
    events: int


def execute(tasks: PreparedTasks, servers: I64, background: tuple[int, int]) -> Execution:
    """Run all tasks once; `servers` are `server_rows`, `background` of DDR and network.

    The background is in 2^-`BACKGROUND_BITS` transfers.
    """
    count, queues = len(tasks.task), tasks.queues.shape[1]
    follower, waiting = _in_order(tasks)
    begun, freed, ended = np.zeros((3, count), dtype=np.int64)
    flying = np.zeros(2, dtype=np.int64)
    rates = np.stack([servers[[DDR, NOC], CAP], servers[[DDR, NOC], TOTAL], background])
    events = _run(
        tasks.task,
        tasks.lists,
        follower,
        waiting,
        begun,
        freed,
        ended,
        rates.astype(np.int64),
        flying,
        np.empty((3, 2 * queues + 2, 2), dtype=np.int64),
        np.empty(count, dtype=np.int64),
    )
    busy = np.bincount(tasks.task[:, T_QUEUE], weights=freed - begun, minlength=queues)
    duration = int(ended.max()) if count else 0
    return Execution(duration, begun, freed, ended, busy.astype(np.int64), flying, int(events))


def _in_order(tasks: PreparedTasks) -> tuple[I64, I64]:
    """The task after each on its engine (-1: none), and how many each waits for with it."""
    follower = np.full(len(tasks.task), -1, dtype=np.int64)
    waiting = tasks.task[:, T_NEEDS].copy()
    for first, end in tasks.queues[:2].T:
        row = tasks.lists[first:end]
        follower[row[:-1]] = row[1:]
        waiting[row[1:]] += 1
    return follower, waiting


@_inlined
def _push(heap: I64, sizes: I64, h: int, key: int, number: int) -> None:
    n = sizes[h]
    sizes[h] = n + 1
    while n > 0:
        parent = (n - 1) >> 1
        if heap[h, parent, 0] <= key:
            break
        heap[h, n, 0] = heap[h, parent, 0]
        heap[h, n, 1] = heap[h, parent, 1]
        n = parent
    heap[h, n, 0] = key
    heap[h, n, 1] = number


@_inlined
def _pop(heap: I64, sizes: I64, h: int) -> int:
    number = heap[h, 0, 1]
    n = sizes[h] - 1
    sizes[h] = n
    key, last = heap[h, n, 0], heap[h, n, 1]
    hole, child = 0, 1
    while child < n:
        if child + 1 < n and heap[h, child + 1, 0] < heap[h, child, 0]:
            child += 1
        if heap[h, child, 0] >= key:
            break
        heap[h, hole, 0] = heap[h, child, 0]
        heap[h, hole, 1] = heap[h, child, 1]
        hole = child
        child = 2 * hole + 1
    heap[h, hole, 0] = key
    heap[h, hole, 1] = last
    return int(number)


@_inlined
def _rate(rates: I64, s: int, flying: int) -> int:
    """Virtual bytes a picosecond that each of `flying` transfers gets beside the background."""
    shared = (rates[1, s] << BACKGROUND_BITS) // ((flying << BACKGROUND_BITS) + rates[2, s])
    return int(min(rates[0, s], shared))


@_inlined
def _advance(state: I64, rates: I64, s: int, now: int) -> None:
    flying = state[s, _FLYING]
    if flying > 0:
        passed = now - state[s, _LAST]
        state[s, _VIRTUAL] += passed * _rate(rates, s, flying)
        state[s, _INTEGRAL] += passed * flying
    state[s, _LAST] = now


@_inlined
def _find_next(state: I64, rates: I64, heap: I64, s: int) -> None:
    if state[s, _FLYING] == 0:
        state[s, _NEXT] = NEVER
        state[s, _VIRTUAL] = 0
        return
    rate = _rate(rates, s, state[s, _FLYING])
    left = max(heap[s, 0, 0] - state[s, _VIRTUAL], 0)
    state[s, _NEXT] = state[s, _LAST] + (left + rate - 1) // rate


@_inlined
def _release(
    task: I64,
    lists: I64,
    follower: I64,
    waiting: I64,
    begun: I64,
    stack: I64,
    top: int,
    number: int,
    free_at: int,
    done_at: int,
) -> int:
    """What waits for a task comes nearer; what waits for nothing more goes on the stack."""
    after = follower[number]
    if after >= 0:
        begun[after] = max(begun[after], free_at)
        waiting[after] -= 1
        if waiting[after] == 0:
            stack[top] = after
            top += 1
    for at in range(task[number, T_NEXT], task[number, T_NEXT_END]):
        other = lists[at]
        begun[other] = max(begun[other], done_at)
        waiting[other] -= 1
        if waiting[other] == 0:
            stack[top] = other
            top += 1
    return top


@_inlined
def _follow(
    task: I64,
    lists: I64,
    follower: I64,
    waiting: I64,
    begun: I64,
    freed: I64,
    ended: I64,
    heap: I64,
    sizes: I64,
    stack: I64,
    top: int,
) -> None:
    """Run the tasks on the stack and all that follow from them, up to the next transfers."""
    while top > 0:
        top -= 1
        number = stack[top]
        after_own = begun[number] + task[number, T_TIME]
        if task[number, T_SERVER] >= 0:
            _push(heap, sizes, _COMING, after_own, number)
            continue
        freed[number] = after_own
        ended[number] = after_own
        top = _release(
            task, lists, follower, waiting, begun, stack, top, number, after_own, after_own
        )


@njit(cache=True, error_model="numpy")
def _run(
    task: I64,
    lists: I64,
    follower: I64,
    waiting: I64,
    begun: I64,
    freed: I64,
    ended: I64,
    rates: I64,
    flying: I64,
    heap: I64,
    stack: I64,
) -> int:
    """Fill the times of all tasks; returns the number of events.

    `rates` [cap, total, background; server]. At equal times an end comes before a begin.
    """
    sizes = np.zeros(3, dtype=np.int64)
    state = np.zeros((2, 5), dtype=np.int64)
    state[:, _NEXT] = NEVER
    events, top = 0, 0
    for number in range(task.shape[0]):
        if waiting[number] == 0:
            stack[top] = number
            top += 1
    _follow(task, lists, follower, waiting, begun, freed, ended, heap, sizes, stack, top)
    while True:
        s = NOC if state[NOC, _NEXT] < state[DDR, _NEXT] else DDR
        coming = heap[_COMING, 0, 0] if sizes[_COMING] > 0 else NEVER
        now = min(state[s, _NEXT], coming)
        if now == NEVER:
            break
        events += 1
        if state[s, _NEXT] > coming:
            number = _pop(heap, sizes, _COMING)
            s = task[number, T_SERVER]
            _advance(state, rates, s, now)
            end = state[s, _VIRTUAL] + (task[number, T_BYTES] << FRACTION_BITS)
            _push(heap, sizes, s, end, number)
            state[s, _FLYING] += 1
            _find_next(state, rates, heap, s)
            continue
        _advance(state, rates, s, now)
        number = _pop(heap, sizes, s)
        state[s, _FLYING] -= 1
        _find_next(state, rates, heap, s)
        freed[number] = now
        ended[number] = now + task[number, T_TAIL]
        top = _release(task, lists, follower, waiting, begun, stack, 0, number, now, ended[number])
        _follow(task, lists, follower, waiting, begun, freed, ended, heap, sizes, stack, top)
    flying[0], flying[1] = state[DDR, _INTEGRAL], state[NOC, _INTEGRAL]
    return events
