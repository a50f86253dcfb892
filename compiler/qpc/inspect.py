"""What a container says of itself, whoever wrote it, without reading its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.errors import QpcError
from compiler.ir.graph import Graph
from compiler.program import Program, TaskKind
from compiler.qpc import constants, metadata, networkdesc
from compiler.qpc import files as qpc_files
from compiler.qpc.container import (
    CONSTANTS,
    CONSTANTS_DESCRIPTOR,
    NETWORK_DESCRIPTOR,
    NETWORK_ELF,
    Container,
    Entry,
)
from compiler.qpc.graph import GRAPH_SEGMENT
from compiler.qpc.metadata import Metadata
from compiler.qpc.networkdesc import NetworkDescriptor
from compiler.qpc.program import PROGRAM_SEGMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreWork:
    """What the tasks of one core come to in one inference; DDR and network in bytes.

    `sent_bytes` counts a multicast once, however many cores receive it.
    """

    core: int
    tasks: int
    macs: int
    vector_elements: int
    ddr_read_bytes: int
    ddr_written_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The content of a container; `program` and `graph` are `None` where it holds none."""

    path: Path
    size_bytes: int
    segments: tuple[Entry, ...]
    descriptor: NetworkDescriptor
    metadata: Metadata
    static_constants_bytes: int
    dynamic_constants_bytes: int
    program: Program | None
    graph: Graph | None
    cores: tuple[CoreWork, ...]


def inspect(directory: Path) -> Inspection:
    """Read the container in `directory` (the file itself may be named as well).

    The segments that the vendor's runtime needs must be there and agree, else `QpcError`.
    """
    container = qpc_files.open_qpc(directory)
    program = qpc_files.read(directory) if PROGRAM_SEGMENT in container.entries else None
    graph = qpc_files.read_graph(directory) if GRAPH_SEGMENT in container.entries else None
    try:
        return _inspection(container, program, graph)
    except QpcError as error:
        if str(error).startswith(str(container.path)):
            raise
        raise QpcError(f"{container.path}: {error}") from error


def _inspection(container: Container, program: Program | None, graph: Graph | None) -> Inspection:
    static, dynamic = constants.described_bytes(container.segment(CONSTANTS_DESCRIPTOR))
    _check_constants(container, static, dynamic)
    return Inspection(
        path=container.path,
        size_bytes=container.identity[1],
        segments=tuple(container.entries.values()),
        descriptor=networkdesc.parse(container.segment(NETWORK_DESCRIPTOR)),
        metadata=metadata.parse(container.segment(NETWORK_ELF)),
        static_constants_bytes=static,
        dynamic_constants_bytes=dynamic,
        program=program,
        graph=graph,
        cores=() if program is None else _cores(program),
    )


def _check_constants(container: Container, static: int, dynamic: int) -> None:
    entry = container.entries.get(CONSTANTS)
    held = 0 if entry is None else entry.size
    if static + dynamic != held:
        raise QpcError(
            f"the constants descriptor states {static} static and {dynamic} dynamic bytes, "
            f"{CONSTANTS} has {held}"
        )


def _cores(program: Program) -> tuple[CoreWork, ...]:
    return tuple(_core(program, core) for core in range(program.options.num_cores))


def _core(program: Program, core: int) -> CoreWork:
    tasks, own = program.tasks, program.tasks.core == core

    def total(*kinds: TaskKind) -> int:
        return int(tasks.w0[own & np.isin(tasks.kind, kinds)].sum())

    products = own & np.isin(tasks.kind, (TaskKind.MATMUL, TaskKind.MATMUL_INT8))
    macs = tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3
    return CoreWork(
        core=core,
        tasks=int(own.sum()),
        macs=int(macs[products].sum()),
        vector_elements=total(TaskKind.VECTOR),
        ddr_read_bytes=total(TaskKind.READ),
        ddr_written_bytes=total(TaskKind.WRITE),
        sent_bytes=int(tasks.w0[own & (tasks.receivers > 0)].sum()),
    )
