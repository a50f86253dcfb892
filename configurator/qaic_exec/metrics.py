"""What `-aic-perf-metrics` and `-ddr-stats` print: counts from the tasks of the program.

The names follow the real tool's report. Traffic is that of one inference. What a program does not
say is left out, such as the constants before their layout changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program, TaskKind
from compiler.qpc import metadata
from compiler.target import device
from configurator.tables import grid

_KIB = 1 << 10

_FP16_BYTES = 2
_PRODUCTS = (TaskKind.MATMUL, TaskKind.MATMUL_INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTraffic:
    """Bytes of one core in one inference.

    `multicast_read` is `None` where a message goes to some of the other cores only: a program
    says to how many.
    """

    read: int
    read_constants: int
    written: int
    multicast_read: int | None
    multicast_written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Computing tasks whose results have at least `least_bytes` and less than twice that."""

    least_bytes: int
    hmx: int
    hvx: int


def size_histogram(program: Program) -> tuple[SizeClass, ...]:
    """Tasks by the size of their results, in powers of two; 0 bytes count as 1."""
    tasks = program.tasks
    products = np.isin(tasks.kind, _PRODUCTS)
    vectors = tasks.kind == TaskKind.VECTOR
    results = np.where(products, tasks.w0 * tasks.w2 * _FP16_BYTES, tasks.w0 * tasks.w2)
    power = np.frexp(np.maximum(results, 1).astype(np.float64))[1] - 1
    return tuple(
        SizeClass(
            least_bytes=1 << int(exponent),
            hmx=int(np.sum(products & (power == exponent))),
            hvx=int(np.sum(vectors & (power == exponent))),
        )
        for exponent in np.unique(power[products | vectors])
    )


def core_traffic(program: Program) -> tuple[CoreTraffic, ...]:
    """One entry a core."""
    tasks, cores = program.tasks, program.options.num_cores
    reads, sends = tasks.kind == TaskKind.READ, tasks.receivers > 0

    def total(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        sums = np.zeros(cores, np.int64)
        np.add.at(sums, tasks.core[chosen], tasks.w0[chosen])
        return sums

    sent = total(sends)
    to_all = bool(np.all(tasks.receivers[sends] == cores - 1))
    columns = (total(reads), total(reads & (tasks.w1 == 0)), total(tasks.kind == TaskKind.WRITE))
    return tuple(
        CoreTraffic(
            read=int(read),
            read_constants=int(constants),
            written=int(written),
            multicast_read=int(sent.sum() - sent[core]) if to_all else None,
            multicast_written=int(sent[core]),
        )
        for core, (read, constants, written) in enumerate(zip(*columns, strict=True))
    )


def received_bytes(program: Program) -> int:
    """Bytes that all cores together receive from others: a multicast counts at each receiver."""
    tasks = program.tasks
    return int(np.sum(tasks.w0 * tasks.receivers))


def mac_count(program: Program) -> int:
    """Multiply-accumulates of the tensor units: a depthwise convolution runs as a dense one."""
    tasks = program.tasks
    products = np.isin(tasks.kind, _PRODUCTS)
    return int(np.sum((tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3)[products]))


def metrics_text(program: Program) -> str:
    """The report of `-aic-perf-metrics`."""
    return "\n".join(
        [
            "Op size histogram:",
            grid([_SIZE_HEADER, *(_size_cells(row) for row in size_histogram(program))]),
            "",
            *_resources(program),
            "",
            ddr_text(program),
        ]
    )


_SIZE_HEADER = ["result bytes", "HMX ops", "HVX ops"]


def _size_cells(row: SizeClass) -> list[str]:
    return [f"{row.least_bytes:,}+", str(row.hmx), str(row.hvx)]


def _resources(program: Program) -> Iterator[str]:
    tasks, memory, cores = program.tasks, program.memory, program.options.num_cores
    described = metadata.metadata_of(program, memory.constants_bytes)
    elf_bytes = len(metadata.network_elf(program, memory.constants_bytes))
    meeting = tasks.w0[tasks.kind == TaskKind.BARRIER]
    each = " per core" if cores > 1 and bool(np.all(meeting == cores)) else ""
    yield f"AIC HMX MAC estimate: {mac_count(program)}"
    yield f"Final constants: {memory.constants_bytes} bytes"
    yield f"VTCMMaxSize: {memory.vtcm_peak_bytes} of {device(program.sku).vtcm_usable_bytes}"
    yield f"StaticSharedDDRSize: {described.static_shared_ddr_size}"
    yield f"DynamicSharedDDRSize: {described.dynamic_shared_ddr_size}"
    yield f"StaticConstantsSize: {described.static_constants_size}"
    yield f"DynamicConstantsSize: {described.dynamic_constants_size}"
    entries = sum(len(table.multicast_entries) for table in described.nsp_multicast_tables)
    yield f"MulticastTableSize: {entries}"
    yield f"Barriers: {len(meeting)}{each}"
    yield f"Distinct operations: {len({layer.op for layer in program.layers})}"
    yield f"Tasks: {len(tasks)} in {len(program.layers)} layers"
    yield f"ELF size: {elf_bytes} bytes"


def ddr_text(program: Program) -> str:
    """The table of traffic, which `-ddr-stats` prints alone."""
    rows = core_traffic(program)
    header = ["KB", "DDR read", "constant only", "DDR write", "MC read", "MC write"]
    host = ["host", _kib(program.output_bytes), "-", _kib(program.input_bytes), "-", "-"]
    total = [
        "total of cores",
        _kib(sum(row.read for row in rows)),
        _kib(sum(row.read_constants for row in rows)),
        _kib(sum(row.written for row in rows)),
        _kib(received_bytes(program)),
        _kib(sum(row.multicast_written for row in rows)),
    ]
    lines = [[f"c{core:02}", *_cells(row)] for core, row in enumerate(rows)]
    return "Traffic of one inference:\n" + grid([header, host, *lines, total])


def _cells(row: CoreTraffic) -> list[str]:
    return [
        _kib(row.read),
        f"{_kib(row.read_constants)} ({_share(row.read_constants, row.read)})",
        _kib(row.written),
        "-" if row.multicast_read is None else _kib(row.multicast_read),
        _kib(row.multicast_written),
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / _KIB:,.1f}"
