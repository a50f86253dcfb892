"""Programs built by hand, for tests whose times are derived on paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.program import Binding, Layer, MemoryUse, Program, TaskKind, Tasks, VectorOp, verify
from compiler.target import Sku


@dataclass
class ProgramBuilder:
    """Appends tasks and gives their indices."""

    num_cores: int = 1
    batch_size: int = 1
    input_bytes: int = 4
    output_bytes: int = 4
    double_buffered_inputs: bool = True
    sku: Sku = Sku.STD
    stage_cores: tuple[int, ...] = ()
    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)

    def add(
        self,
        kind: TaskKind,
        work: tuple[int, ...],
        after: tuple[int, ...] = (),
        core: int = 0,
    ) -> int:
        padded = (*work, *(0,) * (4 - len(work)))
        self.rows.append((int(kind), core, padded[0], padded[1], padded[2], padded[3]))
        self.after.append(after)
        return len(self.rows) - 1

    def matmul(
        self, rows: int, inputs: int, outputs: int, after: tuple[int, ...] = (), core: int = 0
    ) -> int:
        return self.add(TaskKind.MATMUL, (rows, inputs, outputs, 1), after, core)

    def vector(
        self, elements: int, op: VectorOp, after: tuple[int, ...] = (), core: int = 0
    ) -> int:
        return self.add(TaskKind.VECTOR, (elements, int(op), 2), after, core)

    def read(self, size: int, after: tuple[int, ...] = (), core: int = 0) -> int:
        return self.add(TaskKind.READ, (size,), after, core)

    def send(self, size: int, receivers: int, after: tuple[int, ...] = (), core: int = 0) -> int:
        return self.add(TaskKind.SEND, (size, receivers), after, core)

    def barrier(self, after: tuple[int, ...] = ()) -> int:
        return self.add(TaskKind.BARRIER, (self.num_cores,), after)

    def build(self, ddr_per_instance_bytes: int = 0) -> Program:
        columns = np.asarray(self.rows, dtype=np.int64).reshape(-1, 6)
        starts = np.cumsum([0, *(len(needs) for needs in self.after)])
        flat = [task for needs in self.after for task in needs]
        tasks = Tasks(
            kind=columns[:, 0].astype(np.int8),
            core=columns[:, 1].astype(np.int16),
            layer=np.zeros(len(columns), dtype=np.int32),
            w0=columns[:, 2].copy(),
            w1=columns[:, 3].copy(),
            w2=columns[:, 4].copy(),
            w3=columns[:, 5].copy(),
            after_start=starts.astype(np.int64),
            after=np.asarray(flat, dtype=np.int32),
        )
        program = Program(
            model_name="by hand",
            model_sha256="0" * 64,
            compiler_version="test",
            sku=self.sku,
            options=CompileOptions(num_cores=self.num_cores, batch_size=self.batch_size),
            chosen=(),
            inputs=(Binding("in", DType.UINT8, (self.input_bytes,), self.input_bytes),),
            outputs=(Binding("out", DType.UINT8, (self.output_bytes,), self.output_bytes),),
            memory=MemoryUse(0, ddr_per_instance_bytes, 0),
            layers=(Layer("all", "All", (1,), 0, 0, 0, 0, 1, ""),),
            tasks=tasks,
            double_buffered_inputs=self.double_buffered_inputs,
            stage_cores=self.stage_cores,
        )
        verify(program)
        return program


_MATMUL = st.tuples(*[st.integers(1, 200)] * 3, st.integers(1, 9))
_WORK = {
    TaskKind.MATMUL: _MATMUL,
    TaskKind.MATMUL_INT8: _MATMUL,
    TaskKind.VECTOR: st.tuples(
        st.integers(0, 20_000), st.integers(0, len(VectorOp) - 1), st.just(2), st.just(0)
    ),
    TaskKind.READ: st.tuples(st.integers(0, 300_000), st.integers(0, 1), st.integers(0, 3)),
    TaskKind.WRITE: st.tuples(st.integers(0, 300_000)),
    TaskKind.SEND: st.tuples(st.integers(0, 300_000), st.integers(1, 3)),
    TaskKind.BARRIER: st.tuples(st.integers(1, 4)),
}


@st.composite
def programs(draw: st.DrawFn, max_tasks: int = 30) -> Program:
    """Any legal program of up to four cores: random work, random earlier dependencies."""
    builder = ProgramBuilder(
        num_cores=draw(st.integers(1, 4)),
        batch_size=draw(st.integers(1, 3)),
        input_bytes=draw(st.integers(1, 200_000)),
        output_bytes=draw(st.integers(1, 200_000)),
        double_buffered_inputs=draw(st.booleans()),
    )
    first = draw(st.integers(0, builder.num_cores - 1))
    builder.stage_cores = (first, builder.num_cores - first) if first else ()
    for index in range(draw(st.integers(1, max_tasks))):
        kind = draw(st.sampled_from(list(TaskKind)))
        core = 0 if kind is TaskKind.BARRIER else draw(st.integers(0, builder.num_cores - 1))
        # No task depends on one of another stage.
        earlier = [t for t in range(index) if (builder.rows[t][1] < first) == (core < first)]
        needs = draw(st.sets(st.sampled_from(earlier), max_size=3)) if earlier else set()
        builder.add(kind, draw(_WORK[kind]), tuple(sorted(needs)), core)
    return builder.build()
