"""The container frame: named segments in one file, written as a stream, read by ranges.

The frame is the vendor's (software-kit-for-qualcomm-cloud-ai-100, QAicQpc.h): a 40-byte header, a
table of segments, their names, their data; little endian, no checksum. Pointers are file offsets,
less `base` where a file carries memory addresses. The vendor's reader follows them unchecked; this
one checks every offset, count and name before it uses it.
"""

from __future__ import annotations

import os
import secrets
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from compiler.errors import QpcError

CONSTANTS = "constants.bin"
CONSTANTS_DESCRIPTOR = "constantsdesc.bin"
NETWORK_DESCRIPTOR = "networkdesc.bin"
NETWORK_ELF = "network.elf"

_MAGIC = 0x00A1CD7C
_HEADER = struct.Struct("<IBBHQQQQ")
_ENTRY = struct.Struct("<QQQQ")
_SLOW_PATH = 1
"""The compression type of a file; 0 stands for pointers into memory, which no file can hold."""
_ALIGNMENT = 8
_MAX_SEGMENTS = 64
"""assumed: the vendor's containers hold fewer than ten."""
_MAX_NAME_BYTES = 255
"""assumed: the longest file name of common systems."""

Fetch = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Segment:
    """A named piece of a container; `chunks` are asked for once, after all earlier segments."""

    name: str
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a segment lies in its file.

    The first `static_bytes` of constants.bin are loaded once for all activations; the other
    segments have none.
    """

    name: str
    start: int
    size: int
    static_bytes: int


def write_frame(file: BinaryIO, segments: Sequence[Segment]) -> None:
    """Write a container to `file`, which must be empty and able to seek."""
    names = [_padded(segment.name.encode() + b"\0") for segment in segments]
    names_at = _HEADER.size + _ENTRY.size * len(segments)
    data_at = names_at + sum(map(len, names))
    file.write(b"\0" * data_at)
    spans, end = [], data_at
    for segment in segments:
        size = _copy(file, segment.chunks)
        spans.append((end, size))
        end += size + -size % _ALIGNMENT
    file.seek(0)
    file.write(_head(segments, names, spans, end))


def _copy(file: BinaryIO, chunks: Iterable[bytes]) -> int:
    size = 0
    for chunk in chunks:
        file.write(chunk)
        size += len(chunk)
    file.write(b"\0" * (-size % _ALIGNMENT))
    return size


def _head(
    segments: Sequence[Segment], names: list[bytes], spans: list[tuple[int, int]], end: int
) -> bytes:
    table, name_at = b"", _HEADER.size + _ENTRY.size * len(segments)
    for segment, name, (start, size) in zip(segments, names, spans, strict=True):
        static_bytes = size if segment.name == CONSTANTS else 0
        table += _ENTRY.pack(size, static_bytes, name_at, start)
        name_at += len(name)
    header = _HEADER.pack(_MAGIC, 0, 1, _SLOW_PATH, end, 0, len(segments), _HEADER.size)
    return header + table + b"".join(names)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` when the block ends well, and else vanishes."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, target)
    except OSError as error:
        raise QpcError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        _discard(temporary)


def _discard(temporary: Path) -> None:
    # Where the folder itself could not be made there is nothing to discard either.
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        return


def entries(fetch: Fetch, size: int) -> dict[str, Entry]:
    """The segments of a container of `size` bytes by name, in order.

    `fetch(start, length)` gives bytes that lie inside; whatever points elsewhere is a `QpcError`.
    """
    count, table_at, base = _checked_header(fetch, size)
    found: dict[str, Entry] = {}
    table = _inside(fetch, size, table_at - base, _ENTRY.size * count, "segment table")
    for length, static_bytes, name_at, start in _ENTRY.iter_unpack(table):
        name = _name(fetch, size, name_at - base)
        _check_span(size, start - base, length, f"segment {name!r}")
        if name in found:
            raise QpcError(f"two segments are called {name!r}")
        if name == CONSTANTS and static_bytes > length:
            raise QpcError(f"{name} has {length} bytes, {static_bytes} of them static")
        found[name] = Entry(name, start - base, length, static_bytes)
    _check_apart(found)
    return found


def _checked_header(fetch: Fetch, size: int) -> tuple[int, int, int]:
    if size < _HEADER.size:
        raise QpcError(f"{size} bytes are too few for a container ({_HEADER.size})")
    fields = _HEADER.unpack(fetch(0, _HEADER.size))
    magic, _, _, compression, stated, base, count, table_at = fields
    if magic != _MAGIC:
        raise QpcError(f"magic number is {magic:#010x}, not {_MAGIC:#010x}: not a QPC")
    if stated != size:
        raise QpcError(f"header says {stated} bytes, the file has {size}: cut or damaged")
    if compression != _SLOW_PATH:
        raise QpcError(f"compression type is {compression}, only {_SLOW_PATH} can be read")
    if count > _MAX_SEGMENTS:
        raise QpcError(f"header says {count} segments, at most {_MAX_SEGMENTS} can be read")
    return count, table_at, base


def _check_apart(found: Mapping[str, Entry]) -> None:
    spans = sorted((entry.start, entry.size, name) for name, entry in found.items() if entry.size)
    for (start, length, name), (following, _, other) in pairwise(spans):
        if start + length > following:
            raise QpcError(
                f"segment {name!r} ends at {start + length}, {other!r} starts at {following}"
            )


def _check_span(size: int, start: int, length: int, what: str) -> None:
    if start < 0 or start + length > size:
        raise QpcError(f"{what} at {start} to {start + length} lies outside the {size} bytes")


def _inside(fetch: Fetch, size: int, start: int, length: int, what: str) -> bytes:
    _check_span(size, start, length, what)
    return fetch(start, length)


def _name(fetch: Fetch, size: int, start: int) -> str:
    if not 0 <= start < size:
        raise QpcError(f"a segment's name at {start} lies outside the {size} bytes")
    raw = fetch(start, min(_MAX_NAME_BYTES + 1, size - start))
    name, end, _ = raw.partition(b"\0")
    if not end:
        raise QpcError(f"a segment's name at {start} does not end")
    return name.decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Container:
    """An open container; nothing but its table is in memory, segments are read when asked for."""

    path: Path
    entries: Mapping[str, Entry]
    identity: tuple[int, int, int]

    def segment(self, name: str) -> bytes:
        """The whole of a segment."""
        if name not in self.entries:
            raise QpcError(f"{self.path}: holds no {name} segment")
        return self.part(name, 0, self.entries[name].size)

    def part(self, name: str, start: int, length: int) -> bytes:
        """`length` bytes of a segment from its byte `start`."""
        entry = self.entries[name]
        if start < 0 or length < 0 or start + length > entry.size:
            raise QpcError(
                f"{self.path}: bytes {start} to {start + length} of {name} are asked for, "
                f"it has {entry.size}"
            )
        with _open(self.path) as file:
            if _identity(file) != self.identity:
                raise QpcError(f"{self.path}: has changed since it was opened; read it again")
            return _read(file, entry.start + start, length)


def open_container(path: Path) -> Container:
    """Read the table of the container at `path`."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            found = entries(lambda start, length: _read(file, start, length), size)
        except QpcError as error:
            raise QpcError(f"{path}: {error}") from error
        return Container(path, found, _identity(file))


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise QpcError(f"cannot read {path}: not a regular file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise QpcError(f"cannot read {path}: {error.strerror or error}") from error


def _identity(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    data = file.read(length)
    if len(data) != length:
        raise QpcError(f"{length} bytes at {start} are asked for, {len(data)} could be read")
    return data
