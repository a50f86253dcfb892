"""What each task of a program does and makes: the rows of statistics, counted from its work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from compiler.program import ENGINE_OF, Engine, Program, TaskKind, VectorOp
from runtime_sim.device.work import matmul_cycles, vector_cycles
from runtime_sim.timing import TimingParams

I64 = NDArray[np.int64]

_FP16_BYTES = 2
_TYPES = {1: "int8", 2: "fp16", 4: "32-bit", 8: "64-bit"}
_PRODUCTS = (TaskKind.MATMUL, TaskKind.MATMUL_INT8)
_READS = {False: "read constants", True: "read activations"}


class Memory(Enum):
    """What an operation works on besides registers: VTCM, or DDR as the other end of a copy."""

    VTCM = "TCM"
    DDR = "DDR"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of statistics: what tasks of one kind do, on what, and in which type ("": bytes)."""

    name: str
    engine: Engine
    memory: Memory
    type_: str


_PLAIN = {
    TaskKind.MATMUL: ("matmul", Engine.HMX, Memory.VTCM, "fp16"),
    TaskKind.MATMUL_INT8: ("matmul", Engine.HMX, Memory.VTCM, "int8"),
    TaskKind.SEND: ("multicast", Engine.STORE, Memory.VTCM, ""),
    TaskKind.WRITE: ("write", Engine.STORE, Memory.DDR, ""),
    TaskKind.BARRIER: ("barrier", Engine.SYNC, Memory.NONE, ""),
}


@dataclass(frozen=True, slots=True)
class Work:
    """What each task counts for, [task].

    `engine` is an `Engine`. `macs` are those that HMX does. `made_bytes` is what a computing task
    leaves in VTCM. A transfer counts in one of the last three, but a read for several cores counts
    as sent as well; a multicast counts once.
    """

    engine: I64
    macs: I64
    made_bytes: I64
    read_bytes: I64
    written_bytes: I64
    sent_bytes: I64

    @property
    def result_bytes(self) -> I64:
        """What each task makes or moves."""
        moved = np.maximum(self.read_bytes, self.sent_bytes) + self.written_bytes
        return self.made_bytes + moved


def work_of(program: Program) -> Work:
    """Counted over the whole batch."""
    tasks = program.tasks
    products = np.isin(tasks.kind, _PRODUCTS)
    macs = np.where(products, tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3, 0)
    stored = np.where(tasks.kind == TaskKind.VECTOR, tasks.w0 * tasks.w2, 0)
    return Work(
        engine=engines_of(program),
        macs=macs,
        made_bytes=np.where(products, tasks.w0 * tasks.w2 * _FP16_BYTES, stored),
        read_bytes=_sizes(program, TaskKind.READ),
        written_bytes=_sizes(program, TaskKind.WRITE),
        sent_bytes=np.where(tasks.receivers > 0, tasks.w0, 0),
    )


def engines_of(program: Program) -> I64:
    """The `Engine` of each task."""
    return np.asarray([ENGINE_OF[kind] for kind in TaskKind], dtype=np.int64)[program.tasks.kind]


def issue_cycles(program: Program, cycles: I64, timing: TimingParams) -> I64:
    """NSP cycles that a core spends on each computing task besides its engine's own work.

    `cycles` are all that each task takes, as it was prepared.
    """
    tasks, bare = program.tasks, replace(timing, hmx_task_cycles=0, vector_task_cycles=0)
    vector = tasks.kind == TaskKind.VECTOR
    work = np.where(vector, vector_cycles(tasks, bare), matmul_cycles(tasks, bare))
    computing = vector | np.isin(tasks.kind, _PRODUCTS)
    return np.where(computing, cycles - work, 0)


def _sizes(program: Program, kind: TaskKind) -> I64:
    return np.where(program.tasks.kind == kind, program.tasks.w0, 0)


def operations_of(program: Program) -> tuple[tuple[Operation, ...], I64]:
    """The operations in the order of their first tasks, and the index of each task's."""
    tasks = program.tasks
    vector = tasks.kind == TaskKind.VECTOR
    classed = vector | (tasks.kind == TaskKind.READ)
    classes, sizes = np.where(classed, tasks.w1, 0), np.where(vector, tasks.w2, 0)
    keys = zip(tasks.kind.tolist(), classes.tolist(), sizes.tolist(), strict=True)
    numbers: dict[tuple[int, int, int], int] = {}
    of_task = np.asarray([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return tuple(_operation(*key) for key in numbers), of_task


def _operation(kind_number: int, class_: int, element_bytes: int) -> Operation:
    kind = TaskKind(kind_number)
    engine = ENGINE_OF[kind]
    if kind is TaskKind.VECTOR:
        type_ = _TYPES.get(element_bytes, f"{element_bytes}-byte")
        return Operation(VectorOp(class_).name.lower(), engine, Memory.VTCM, type_)
    if kind is TaskKind.READ:
        return Operation(_READS[class_ != 0], engine, Memory.DDR, "")
    return Operation(*_PLAIN[kind])
