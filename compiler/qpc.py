"""The program container on disk: DIR/programqpc.bin.

The frame is the vendor's container (software-kit-for-qualcomm-cloud-ai-100, QAicQpc.h): a 40-byte
header, a table of segments, their names, their data; little endian, pointers as file offsets.
Our program is one segment: a JSON head and the task columns as they are in memory. Nothing in a
container depends on time or place: equal programs are equal bytes.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions, Precision
from compiler.program import Binding, Layer, MemoryUse, Program, Tasks, Tiles, verify
from compiler.target import Sku

FILE_NAME = "programqpc.bin"
PROGRAM_SEGMENT = "aic_configurator_program"
FORMAT = 2

_MAGIC = 0x00A1CD7C
_HEADER = struct.Struct("<IBBHQQQQ")
_SEGMENT = struct.Struct("<QQQQ")
_SLOW_PATH = 1
_MAX_SEGMENTS = 64
_COLUMNS = (
    ("kind", "<i1"),
    ("core", "<i2"),
    ("layer", "<i4"),
    ("w0", "<i8"),
    ("w1", "<i8"),
    ("w2", "<i8"),
    ("w3", "<i8"),
    ("after_start", "<i8"),
    ("after", "<i4"),
)
_TILE_COLUMNS = tuple(
    (name, "<i4") for name in ("task", "row_start", "row_end", "column_start", "column_end")
)


def write(program: Program, directory: Path) -> Path:
    """Write `directory`/programqpc.bin whole or not at all; returns its path."""
    content = pack({PROGRAM_SEGMENT: encode(program)})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".programqpc", dir=directory)
    except OSError as error:
        raise QpcError(f"cannot write {directory}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        target = directory / FILE_NAME
        os.replace(temporary, target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise QpcError(f"cannot write {directory}: {error.strerror or error}") from error
    return target


def read(directory: Path) -> Program:
    """The program in `directory`/programqpc.bin (the file itself may be named as well)."""
    path = directory if directory.is_file() else directory / FILE_NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise QpcError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        segments = unpack(content)
        if PROGRAM_SEGMENT not in segments:
            raise QpcError(
                f"holds no {PROGRAM_SEGMENT} segment: not compiled by this compiler, so that only "
                "a real card can run it"
            )
        return decode(segments[PROGRAM_SEGMENT])
    except QpcError as error:
        raise QpcError(f"{path}: {error}") from error


def pack(segments: Mapping[str, bytes]) -> bytes:
    """The container's bytes; segments keep their order."""
    names_at = _HEADER.size + _SEGMENT.size * len(segments)
    encoded = [name.encode() + b"\0" for name in segments]
    padded = [name + b"\0" * (-len(name) % 8) for name in encoded]
    data_at = names_at + sum(len(name) for name in padded)
    table, body, name_at = b"", b"", names_at
    for name, data in zip(padded, segments.values(), strict=True):
        table += _SEGMENT.pack(len(data), 0, name_at, data_at + len(body))
        body += data + b"\0" * (-len(data) % 8)
        name_at += len(name)
    size = data_at + len(body)
    header = _HEADER.pack(_MAGIC, 0, 1, _SLOW_PATH, size, 0, len(segments), _HEADER.size)
    return header + table + b"".join(padded) + body


def unpack(content: bytes) -> dict[str, bytes]:
    """The segments by name; every offset is checked before it is followed."""
    if len(content) < _HEADER.size:
        raise QpcError(f"{len(content)} bytes are too few for a container ({_HEADER.size})")
    magic, _, _, compression, size, base, count, table_at = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise QpcError(f"magic number is {magic:#010x}, not {_MAGIC:#010x}: not a QPC")
    if size != len(content):
        raise QpcError(f"header says {size} bytes, the file has {len(content)}: cut or damaged")
    if compression != _SLOW_PATH or count > _MAX_SEGMENTS:
        raise QpcError(f"compression type {compression} with {count} segments is not readable")
    segments = {}
    for index in range(count):
        at = table_at - base + index * _SEGMENT.size
        length, _, name_at, start = _SEGMENT.unpack(_slice(content, at, _SEGMENT.size))
        name = _name(content, name_at - base)
        segments[name] = _slice(content, start - base, length)
    return segments


def _slice(content: bytes, start: int, length: int) -> bytes:
    if start < 0 or length < 0 or start + length > len(content):
        raise QpcError(
            f"bytes {start} to {start + length} lie outside the {len(content)} there are"
        )
    return content[start : start + length]


def _name(content: bytes, start: int) -> str:
    end = content.find(b"\0", start) if 0 <= start < len(content) else -1
    if end < 0 or end - start > 255:
        raise QpcError(f"segment name at byte {start} is not readable")
    return content[start:end].decode(errors="replace")


def encode(program: Program) -> bytes:
    """The payload of our segment."""
    arrays = [getattr(program.tasks, name).astype(kind) for name, kind in _COLUMNS]
    arrays += [getattr(program.tiles, name).astype(kind) for name, kind in _TILE_COLUMNS]
    head = {
        "format": FORMAT,
        "program": _head(program),
        "columns": [len(array) for array in arrays],
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays)


def decode(content: bytes) -> Program:
    """The program of a payload; `QpcError` where it is damaged or of another format."""
    if len(content) < 8:
        raise QpcError("the program segment is empty")
    (length,) = struct.unpack_from("<Q", content)
    try:
        head = json.loads(_slice(content, 8, length))
        if head["format"] != FORMAT:
            raise QpcError(f"program format {head['format']}, this version reads {FORMAT}")
        columns = _columns(content, 8 + length, head["columns"])
        program = _program(head["program"], *columns)
        verify(program)
    except (ValueError, KeyError, TypeError) as error:
        raise QpcError(f"the program segment is damaged: {error}") from error
    return program


def _columns(content: bytes, at: int, counts: list[int]) -> tuple[Tasks, Tiles]:
    arrays = []
    for (_, kind), count in zip((*_COLUMNS, *_TILE_COLUMNS), counts, strict=True):
        size = count * np.dtype(kind).itemsize
        arrays.append(np.frombuffer(_slice(content, at, size), dtype=kind))
        at += size
    return Tasks(*arrays[: len(_COLUMNS)]), Tiles(*arrays[len(_COLUMNS) :])


def _head(program: Program) -> dict[str, Any]:
    options = program.options
    return {
        "model_name": program.model_name,
        "model_sha256": program.model_sha256,
        "compiler_version": program.compiler_version,
        "sku": program.sku.value,
        "options": {**asdict(options), "precision": options.precision.value},
        "chosen": program.chosen,
        "inputs": [_binding_head(binding) for binding in program.inputs],
        "outputs": [_binding_head(binding) for binding in program.outputs],
        "memory": asdict(program.memory),
        "layers": [list(asdict(layer).values()) for layer in program.layers],
        "double_buffered_inputs": program.double_buffered_inputs,
    }


def _binding_head(binding: Binding) -> list[Any]:
    return [binding.name, binding.dtype.value, binding.shape, binding.size_bytes]


def _binding(row: list[Any]) -> Binding:
    name, dtype, shape, size_bytes = row
    return Binding(name, DType(dtype), tuple(shape), size_bytes)


def _program(head: dict[str, Any], tasks: Tasks, tiles: Tiles) -> Program:
    options = dict(head["options"])
    options["precision"] = Precision(options["precision"])
    options["symbols"] = tuple((name, extent) for name, extent in options["symbols"])
    options["input_shapes"] = tuple((n, tuple(shape)) for n, shape in options["input_shapes"])
    for name in ("sdp_cluster_sizes", "cluster_mos"):
        options[name] = tuple(options[name])
    return Program(
        model_name=head["model_name"],
        model_sha256=head["model_sha256"],
        compiler_version=head["compiler_version"],
        sku=Sku(head["sku"]),
        options=CompileOptions(**options),
        chosen=tuple((name, value) for name, value in head["chosen"]),
        inputs=tuple(_binding(row) for row in head["inputs"]),
        outputs=tuple(_binding(row) for row in head["outputs"]),
        memory=MemoryUse(**head["memory"]),
        layers=tuple(_layer(row) for row in head["layers"]),
        tasks=tasks,
        tiles=tiles,
        double_buffered_inputs=head["double_buffered_inputs"],
    )


def _layer(row: list[Any]) -> Layer:
    layer = Layer(*row)
    return replace(
        layer,
        output_shape=tuple(layer.output_shape),
        nodes=tuple(layer.nodes),
        sources=tuple((value, storage) for value, storage in layer.sources),
    )
