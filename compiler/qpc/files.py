"""Containers in folders: what is written, and what is read back."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from compiler.errors import QpcError
from compiler.ir.graph import Graph
from compiler.program import Program
from compiler.qpc import constants, metadata, networkdesc
from compiler.qpc import graph as graphs
from compiler.qpc import profiling as profilings
from compiler.qpc import program as programs
from compiler.qpc.constants import ConstantImage
from compiler.qpc.container import (
    CONSTANTS,
    CONSTANTS_DESCRIPTOR,
    NETWORK_DESCRIPTOR,
    NETWORK_ELF,
    Container,
    Segment,
    entries,
    open_container,
    replacing,
    write_frame,
)
from compiler.qpc.profiling import Profiling

FILE_NAME = "programqpc.bin"


def write(
    program: Program,
    directory: Path,
    graph: Graph | None = None,
    others: Sequence[Program] = (),
    profiling: Profiling | None = None,
) -> Path:
    """Write `directory`/programqpc.bin whole or not at all; returns its path.

    With the optimised `graph` of the program the file holds its constants and can be executed;
    without it, only the descriptors and the program. `others` are programs of the same network
    for other shapes, which can be simulated; the descriptor lists them after that of `program`.
    `profiling` is what the runner shall be able to tell.
    """
    path = directory / FILE_NAME
    segments = _segments(program, graph, others)
    segments += [
        Segment(_program_segment(number), [programs.encode(other)])
        for number, other in enumerate(others, start=1)
    ]
    if profiling:
        content = profilings.encode(profiling)
        segments.append(Segment(profilings.PROFILING_SEGMENT, [content]))
    with replacing(path) as file:
        write_frame(file, segments)
    return path


def _segments(program: Program, graph: Graph | None, others: Sequence[Program]) -> list[Segment]:
    image = ConstantImage() if graph is None else constants.image_of(graph)
    size = image.size_bytes
    found = [
        Segment(NETWORK_ELF, [metadata.network_elf(program, size, others)]),
        Segment(NETWORK_DESCRIPTOR, [networkdesc.serialise(program, others)]),
        Segment(CONSTANTS_DESCRIPTOR, [constants.descriptor(size)]),
    ]
    if size:
        found.append(Segment(CONSTANTS, image.chunks()))
    found.append(Segment(programs.PROGRAM_SEGMENT, [programs.encode(program)]))
    if graph is not None:
        found.append(Segment(graphs.GRAPH_SEGMENT, _graph_chunks(graph, image)))
    return found


def _graph_chunks(graph: Graph, image: ConstantImage) -> Iterator[bytes]:
    """Made when its turn comes: it holds the checksums of the constants before it."""
    yield graphs.encode(graph, image)


def open_qpc(directory: Path) -> Container:
    """The container in `directory` (the file itself may be named as well)."""
    return open_container(directory / FILE_NAME if directory.is_dir() else directory)


def _program_segment(number: int) -> str:
    return programs.PROGRAM_SEGMENT + (f"_{number}" if number else "")


def program_count(directory: Path) -> int:
    """How many programs the container holds: one a shape of the network."""
    names = open_qpc(directory).entries
    return next(number for number in count() if _program_segment(number) not in names)


def read(directory: Path, number: int = 0) -> Program:
    """The program in `directory`/programqpc.bin (the file itself may be named as well).

    `number` chooses among several shapes of the network.
    """
    container = open_qpc(directory)
    if programs.PROGRAM_SEGMENT not in container.entries:
        raise QpcError(
            f"{container.path}: holds no {programs.PROGRAM_SEGMENT} segment: not compiled by this "
            "compiler, so that only a real card can run it"
        )
    if _program_segment(number) not in container.entries:
        raise QpcError(
            f"{container.path}: holds no specialization {number}, the last is "
            f"{program_count(directory) - 1}"
        )
    content = container.segment(_program_segment(number))
    try:
        return programs.decode(content)
    except QpcError as error:
        raise QpcError(f"{container.path}: {error}") from error


def read_graph(directory: Path) -> Graph:
    """The graph of the program; a constant's values are read from the file when it is loaded."""
    container = open_qpc(directory)
    if graphs.GRAPH_SEGMENT not in container.entries:
        raise QpcError(
            f"{container.path}: holds no {graphs.GRAPH_SEGMENT} segment, so that it can be "
            "simulated but not executed; write it with its graph"
        )
    content = container.segment(graphs.GRAPH_SEGMENT)
    try:
        return graphs.decode(content, container)
    except QpcError as error:
        raise QpcError(f"{container.path}: {error}") from error


def read_profiling(directory: Path) -> Profiling:
    """What the network was compiled to tell about its execution; nothing, for most."""
    container = open_qpc(directory)
    if profilings.PROFILING_SEGMENT not in container.entries:
        return Profiling()
    try:
        return profilings.decode(container.segment(profilings.PROFILING_SEGMENT))
    except QpcError as error:
        raise QpcError(f"{container.path}: {error}") from error


def pack(segments: Mapping[str, bytes]) -> bytes:
    """A container's bytes; segments keep their order."""
    file = io.BytesIO()
    write_frame(file, [Segment(name, [content]) for name, content in segments.items()])
    return file.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    """The segments of a container by name."""
    found = entries(lambda start, length: content[start : start + length], len(content))
    return {name: content[entry.start : entry.start + entry.size] for name, entry in found.items()}
