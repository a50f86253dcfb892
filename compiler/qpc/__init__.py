"""The compiled network on disk: DIR/programqpc.bin, in the vendor's container.

    container    the frame: named segments, streamed out, read by ranges
    networkdesc  the network descriptor (protobuf): inputs, outputs, host buffers
    metadata     what the firmware loads by (flatbuffer in a section of network.elf)
    constants    constants.bin and its descriptor
    program      our program, as a segment of its own
    graph        the optimised graph, as another, so that a container can be executed
    profiling    what the network was compiled to tell of its execution, as a third

`write` without a graph leaves the constants out: the descriptor states 0 bytes and there is no
constants.bin. Such a file can be simulated, not executed; the tuner's cache is made of them.
Nothing depends on time or place: same inputs, same bytes.
"""

from __future__ import annotations

from compiler.qpc.files import (
    FILE_NAME,
    pack,
    program_count,
    read,
    read_graph,
    read_profiling,
    unpack,
    write,
)
from compiler.qpc.profiling import Profiling
from compiler.qpc.program import PROGRAM_SEGMENT, decode, encode

__all__ = [
    "FILE_NAME",
    "PROGRAM_SEGMENT",
    "Profiling",
    "decode",
    "encode",
    "pack",
    "program_count",
    "read",
    "read_graph",
    "read_profiling",
    "unpack",
    "write",
]
