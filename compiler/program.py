"""The device-facing contract: a tile program as plain arrays.

A program is one inference of one instance. Its tasks are stored in columns, in an order in which
every dependency has a smaller index (acyclic by construction). Each task runs on one engine of one
core; the tasks of an engine run one at a time, in index order, each once its dependencies are
done. Nothing in here is a time: work is counted in blocks, elements and bytes, and it is the
simulator's business how long they take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.target import Sku

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
Int16Array = NDArray[np.int16]
Int8Array = NDArray[np.int8]


class Engine(IntEnum):
    """What a task occupies on its core. LOAD and STORE are two queues of the core's DMA."""

    HMX = 0
    HVX = 1
    LOAD = 2
    STORE = 3
    SYNC = 4


class TaskKind(IntEnum):
    """What a task does, and what its four work numbers (`w0`..`w3`) mean.

    MATMUL   HMX: rows, input channels, output channels, repeats (kernel taps x groups)
    VECTOR   HVX: elements, `VectorOp`, bytes of one element, 0
    READ     LOAD: bytes from DDR into the own VTCM, 1 for activations (0: constants), other cores
             that get the same bytes on the way, 0
    SEND     STORE: bytes from the own VTCM to `receivers` other cores at once, receivers, 0, 0
    WRITE    STORE: bytes from the own VTCM to DDR, 0, 0, 0
    BARRIER  SYNC: cores that meet, 0, 0, 0 (stands on core 0; it depends on what must be done)
    MATMUL_INT8  HMX: as MATMUL, with 8-bit operands
    """

    MATMUL = 0
    VECTOR = 1
    READ = 2
    SEND = 3
    WRITE = 4
    BARRIER = 5
    MATMUL_INT8 = 6


ENGINE_OF = {
    TaskKind.MATMUL: Engine.HMX,
    TaskKind.VECTOR: Engine.HVX,
    TaskKind.READ: Engine.LOAD,
    TaskKind.SEND: Engine.STORE,
    TaskKind.WRITE: Engine.STORE,
    TaskKind.BARRIER: Engine.SYNC,
    TaskKind.MATMUL_INT8: Engine.HMX,
}


class VectorOp(IntEnum):
    """Classes of vector work whose cost per element differs on HVX.

    The names follow the operator names of the vendor's device profile where it has one.
    """

    COPY = 0
    ADD = 1
    ADD_SPLAT = 2
    MUL = 3
    MUL_SPLAT = 4
    BROADCAST = 5
    COMPARE = 6
    DIVIDE = 7
    EXPONENTIAL = 8
    ERF = 9
    SIGMOID = 10
    SOFTMAX = 11
    NORMALIZE = 12
    REDUCE = 13
    POOL = 14
    DEPTHWISE = 15
    TRANSPOSE = 16
    TO_D32 = 17
    FROM_D32 = 18
    WEIGHTS_TO_D32 = 19
    GATHER = 20
    CONVERT = 21
    RESIZE = 22
    EPILOGUE = 23


@dataclass(frozen=True, slots=True)
class Binding:
    """An input or output of the model as the host sees it: `shape` includes the batch."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Layer:
    """What the tasks of one step of the model share; a task names its layer by index.

    `op` is the operator (with what was fused into it, joined by '+'), `split` says in words how
    the work was divided over cores, `weight_bytes` and `output_bytes` are per instance and
    inference, `spill_bytes` is what this layer moved to and from DDR for want of VTCM.
    `vtcm_bytes` is what a core's VTCM holds while it runs, of it `tile_bytes` for tiles at hand;
    `why` says what did not fit or what else decided.

    What it computes: the graph's `nodes`, one after the other on each tile (none: a change of
    layout, or a copy from or to the host), into the storage `output`; `sources` are pairs of a
    value of the graph and the storage that its bytes are in. `Tiles` counts along `channel_axis`.
    """

    name: str
    op: str
    output_shape: tuple[int, ...]
    macs: int
    weight_bytes: int
    output_bytes: int
    spill_bytes: int
    tiles: int
    split: str
    vtcm_bytes: int = 0
    tile_bytes: int = 0
    why: str = ""
    nodes: tuple[str, ...] = ()
    output: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    channel_axis: int = 0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes that a loaded program takes.

    `constants_bytes` is shared by all instances of a card, `ddr_per_instance_bytes` is not,
    `vtcm_peak_bytes` is the highest use of any core.
    """

    constants_bytes: int
    ddr_per_instance_bytes: int
    vtcm_peak_bytes: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """The columns, one entry a task; `after[after_start[i]:after_start[i + 1]]`: what i waits for.

    `kind` holds `TaskKind`, `core` the core within the instance (0..num_cores-1), `layer` an
    index into `Program.layers`, `w0`..`w3` the work numbers that `TaskKind` describes.
    """

    kind: Int8Array
    core: Int16Array
    layer: Int32Array
    w0: Int64Array
    w1: Int64Array
    w2: Int64Array
    w3: Int64Array
    after_start: Int64Array
    after: Int32Array

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.kind)

    @property
    def receivers(self) -> Int64Array:
        """To how many other cores each task brings its bytes."""
        sent = np.where(self.kind == TaskKind.SEND, self.w1, 0)
        return np.where(self.kind == TaskKind.READ, self.w2, sent)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Which part of its layer's output each computing task makes; one entry a task that does.

    The part is rows `row_start` to `row_end` (exclusive) of columns `column_start` to
    `column_end`. Columns are the extent of the output's `Layer.channel_axis`. Rows are its first
    and third dims laid end to end where that axis is 1 of three or more dims, all dims but the
    last where it is the last.
    """

    task: Int32Array
    row_start: Int32Array
    row_end: Int32Array
    column_start: Int32Array
    column_end: Int32Array

    def __len__(self) -> int:
        """Number of computing tasks."""
        return len(self.task)


def no_tiles() -> Tiles:
    """For a program of which only the work is known."""
    empty = np.empty(0, np.int32)
    return Tiles(empty, empty, empty, empty, empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One compiled model: tasks, what they belong to, and how it meets host and memories.

    `options` are the options as asked (with `None` where the compiler chose), `chosen` says what
    it chose. With `double_buffered_inputs` the host may bring the next inference's inputs while
    this one runs. The host moves all inputs in `input_transfers` requests, all outputs in
    `output_transfers`.

    `stage_cores` are the cores of each stage of a pipeline, first stage on the first cores; empty
    for a program that is none. All stages run at once, each on another inference: a result is
    there after as many passes as there are stages. No task depends on one of another stage.
    """

    model_name: str
    model_sha256: str
    compiler_version: str
    sku: Sku
    options: CompileOptions
    chosen: tuple[tuple[str, str], ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    memory: MemoryUse
    layers: tuple[Layer, ...]
    tasks: Tasks
    tiles: Tiles = field(default_factory=no_tiles)
    double_buffered_inputs: bool = True
    input_transfers: int = 1
    output_transfers: int = 1
    stage_cores: tuple[int, ...] = ()

    @property
    def input_bytes(self) -> int:
        """Bytes that the host sends for one inference of the whole batch."""
        return sum(binding.size_bytes for binding in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes that the host receives for one inference of the whole batch."""
        return sum(binding.size_bytes for binding in self.outputs)


def verify(program: Program) -> None:
    """Raise `ValueError` where the columns break the contract of the class docstrings."""
    tasks, count = program.tasks, len(program.tasks)
    columns = (tasks.core, tasks.layer, tasks.w0, tasks.w1, tasks.w2, tasks.w3)
    if any(len(column) != count for column in columns) or len(tasks.after_start) != count + 1:
        raise ValueError("task columns differ in length")
    if count == 0:
        raise ValueError("program has no tasks")
    if tasks.after_start[0] != 0 or tasks.after_start[-1] != len(tasks.after):
        raise ValueError("dependency index does not cover the dependency list")
    fan_in = np.diff(tasks.after_start)
    if np.any(fan_in < 0):
        raise ValueError("dependency index decreases")
    owners = np.repeat(np.arange(count), fan_in)
    if np.any(tasks.after < 0) or np.any(tasks.after >= owners):
        raise ValueError("a task depends on a later task")
    if np.any(tasks.core < 0) or np.any(tasks.core >= program.options.num_cores):
        raise ValueError("a task names a core outside the instance")
    if np.any(tasks.layer < 0) or np.any(tasks.layer >= len(program.layers)):
        raise ValueError("a task names a layer that does not exist")
    if not set(np.unique(tasks.kind).tolist()) <= {int(kind) for kind in TaskKind}:
        raise ValueError("a task is of an unknown kind")
    if np.any(tasks.w0 < 0):
        raise ValueError("a task has negative work")
