"""Reports against sums done another way, and against programs whose numbers are known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given

from compiler.program import Engine, Program, TaskKind
from configurator.qaic_exec import advice, metrics
from tests.oracles.programs import ProgramBuilder, programs

Row = tuple[TaskKind, int, int, int, int, int]


def rows(program: Program) -> list[Row]:
    tasks = program.tasks
    columns = (tasks.kind, tasks.core, tasks.w0, tasks.w1, tasks.w2, tasks.w3)
    return [
        (TaskKind(kind), int(core), int(w0), int(w1), int(w2), int(w3))
        for kind, core, w0, w1, w2, w3 in zip(*columns, strict=True)
    ]


def receivers(row: Row) -> int:
    if row[0] is TaskKind.SEND:
        return row[3]
    return row[4] if row[0] is TaskKind.READ else 0


@given(program=programs())
def test_traffic_is_that_of_the_tasks(program: Program) -> None:
    """Core by core, counted with plain integers."""
    tasks = rows(program)
    for core, found in enumerate(metrics.core_traffic(program)):
        own = [row for row in tasks if row[1] == core]
        assert found.read == sum(r[2] for r in own if r[0] is TaskKind.READ)
        assert found.read_constants == sum(
            r[2] for r in own if r[0] is TaskKind.READ and r[3] == 0
        )
        assert found.written == sum(r[2] for r in own if r[0] is TaskKind.WRITE)
        assert found.multicast_written == sum(r[2] for r in own if receivers(r))


@given(program=programs())
def test_what_is_received_adds_up_where_it_is_told(program: Program) -> None:
    found = [row.multicast_read for row in metrics.core_traffic(program)]
    known = [size for size in found if size is not None]
    sends = [row for row in rows(program) if receivers(row)]
    everyone = all(receivers(row) == program.options.num_cores - 1 for row in sends)
    assert len(known) == (len(found) if everyone else 0)
    if everyone:
        assert sum(known) == metrics.received_bytes(program)
    assert metrics.received_bytes(program) == sum(row[2] * receivers(row) for row in sends)


@given(program=programs())
def test_every_computing_task_is_in_one_size_class(program: Program) -> None:
    classes = metrics.size_histogram(program)
    sizes: dict[Engine, list[int]] = {Engine.HMX: [], Engine.HVX: []}
    for kind, _, w0, _, w2, _ in rows(program):
        if kind in (TaskKind.MATMUL, TaskKind.MATMUL_INT8):
            sizes[Engine.HMX].append(w0 * w2 * 2)
        elif kind is TaskKind.VECTOR:
            sizes[Engine.HVX].append(w0 * w2)
    for engine, counts in (
        (Engine.HMX, [c.hmx for c in classes]),
        (Engine.HVX, [c.hvx for c in classes]),
    ):
        expected = [
            sum(c.least_bytes <= max(size, 1) < 2 * c.least_bytes for size in sizes[engine])
            for c in classes
        ]
        assert counts == expected
        assert sum(counts) == len(sizes[engine])


@given(program=programs())
def test_macs_are_those_of_the_tasks(program: Program) -> None:
    products = (TaskKind.MATMUL, TaskKind.MATMUL_INT8)
    expected = sum(r[2] * r[3] * r[4] * r[5] for r in rows(program) if r[0] in products)
    assert metrics.mac_count(program) == expected
    assert f"AIC HMX MAC estimate: {expected}\n" in metrics.metrics_text(program)


def with_macs(program: Program, macs: int) -> Program:
    return replace(program, layers=(replace(program.layers[0], macs=macs),))


@pytest.mark.parametrize(
    ("kind", "work", "asked", "fill"),
    [
        (TaskKind.MATMUL, (32, 64, 96, 1), 32 * 64 * 96, 1.0),
        (TaskKind.MATMUL, (1, 32, 32, 1), 32 * 32, 1 / 32),
        (TaskKind.MATMUL, (33, 32, 32, 1), 33 * 32 * 32, 33 / 64),
        (TaskKind.MATMUL, (32, 3, 16, 1), 32 * 3 * 16, 3 / 64),
        # A depthwise 3 x 3 convolution of 32 channels: one of 32 products in a block is its own.
        (TaskKind.MATMUL, (64, 32, 32, 9), 64 * 32 * 9, 1 / 32),
        (TaskKind.MATMUL_INT8, (32, 32, 32, 1), 32**3, 0.5),
    ],
)
def test_fill_of_one_product(
    kind: TaskKind, work: tuple[int, ...], asked: int, fill: float
) -> None:
    builder = ProgramBuilder()
    builder.add(kind, work)
    program = with_macs(builder.build(), asked)
    assert advice.hmx_fill(program) == pytest.approx((fill,))
    low = [text for text in advice.warnings(program) if "HMX blocks" in text]
    assert len(low) == (fill < 0.5)


def test_a_layer_without_products_has_no_fill() -> None:
    builder = ProgramBuilder()
    builder.read(1)
    assert advice.hmx_fill(builder.build()) == (None,)


def test_what_warnings_say() -> None:
    """Streamed weights that both cores read, activations that spill, a core that idles."""
    builder = ProgramBuilder(num_cores=2)
    for core in range(2):
        builder.read(1 << 20, (), core)
    builder.matmul(32, 32, 32)
    program = builder.build()
    layer = replace(
        program.layers[0], macs=32**3, weight_bytes=1 << 20, spill_bytes=1 << 19, split="rows 1"
    )
    options = replace(program.options, multicast_weights=False)
    program = replace(program, layers=(layer,), options=options, chosen=(("weights", "streamed"),))
    assert [text.partition("; ")[0] for text in advice.warnings(program)] == [
        "weights do not stay in VTCM: 2.00 MiB of constants come from DDR with each inference",
        "1.00 MiB of weights are read 2.0 times",
        "all (All): 0.50 MiB of activations move to or from DDR for want of VTCM",
        "all (All): runs on 1 of 2 cores (rows 1)",
    ]


def test_barriers_are_per_core_only_where_all_meet() -> None:
    builder = ProgramBuilder(num_cores=3)
    builder.barrier()
    assert "Barriers: 1 per core\n" in metrics.metrics_text(builder.build())
    builder.add(TaskKind.BARRIER, (2,))
    assert "Barriers: 2\n" in metrics.metrics_text(builder.build())


def test_the_table_of_a_small_program() -> None:
    """Golden: two cores; sizes in KB of 1,024 bytes."""
    builder = ProgramBuilder(num_cores=2, input_bytes=1024, output_bytes=512)
    read = builder.read(2048)
    builder.add(TaskKind.READ, (1024, 1), (), 1)
    builder.send(2048, 1, (read,))
    builder.add(TaskKind.WRITE, (512,), (read,), 1)
    assert metrics.ddr_text(builder.build()).splitlines() == [
        "Traffic of one inference:",
        "KB              DDR read  constant only  DDR write  MC read  MC write",
        "host                 0.5              -        1.0        -         -",
        "c00                  2.0   2.0 (100.0%)        0.0      0.0       2.0",
        "c01                  1.0     0.0 (0.0%)        0.5      2.0       0.0",
        "total of cores       3.0            2.0        0.5      2.0       2.0",
    ]


def test_a_program_without_traffic_has_a_table() -> None:
    builder = ProgramBuilder()
    builder.matmul(1, 1, 1)
    text = metrics.metrics_text(builder.build())
    assert re.search(r"c00 +0\.0 +0\.0 \(-\)", text)
