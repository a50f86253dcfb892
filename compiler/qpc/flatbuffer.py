"""Flatbuffers for tables that are written as dataclasses.

Each field of such a class is made by `slot`; slots are numbered in order. Source: the FlatBuffers
internals document (tables, vtables, vectors, strings, alignment). Everything that is pointed at
lies behind what points at it, so a buffer is written front to back.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from compiler.errors import QpcError

T = TypeVar("T")


class Kind(Enum):
    """How a slot's value is written; numbers carry their `struct` letter."""

    UINT8 = "B"
    UINT16 = "H"
    UINT32 = "I"
    UINT64 = "Q"
    STRING = "string"
    TABLE = "table"


class _Spec(NamedTuple):
    kind: Kind
    of: type[Any] | None
    many: bool

    @property
    def is_offset(self) -> bool:
        return self.many or self.kind in (Kind.STRING, Kind.TABLE)

    @property
    def size(self) -> int:
        return 4 if self.is_offset else struct.calcsize(self.kind.value)


_MAX_TABLES = 100_000
"""assumed: far more than any metadata holds; tables that share parts cannot make a reader hang."""


def slot(kind: Kind, of: type[Any] | None = None, *, many: bool = False) -> Any:
    """A dataclass field with a slot in the table; `of` is the class of a table.

    A vector is a tuple, of bytes it is `bytes`; strings, tables and vectors that are absent are
    `None`; a number that is absent is 0.
    """
    spec = _Spec(kind, of, many)
    return field(default=None if spec.is_offset else 0, metadata={"slot": spec})


@cache
def _slots(table: type[Any]) -> tuple[tuple[str, _Spec], ...]:
    return tuple((f.name, f.metadata["slot"]) for f in fields(table))


def build(root: Any) -> bytes:
    """The buffer of a root table, without file identifier."""
    writer = _Writer(bytearray(4), {})
    struct.pack_into("<I", writer.out, 0, writer.table(root))
    writer.align(8)
    return bytes(writer.out)


@dataclass(frozen=True, slots=True)
class _Writer:
    out: bytearray
    vtables: dict[bytes, int]

    def align(self, size: int, ahead: int = 0) -> None:
        """Pad so that what stands `ahead` bytes further is a multiple of `size`."""
        self.out.extend(b"\0" * (-(len(self.out) + ahead) % size))

    def table(self, table: Any) -> int:
        """Append a table and what it points at; its position."""
        kind: Any = type(table)
        present = [
            (index, spec, value)
            for index, (name, spec) in enumerate(_slots(kind))
            if (value := getattr(table, name)) is not None and (spec.is_offset or value != 0)
        ]
        places, size = _places([(index, spec.size) for index, spec, _ in present])
        vtable_at = self.vtable(places, size)
        self.align(max((spec.size for _, spec, _ in present if spec.size > 4), default=4))
        at = len(self.out)
        self.out.extend(struct.pack("<i", at - vtable_at) + b"\0" * (size - 4))
        for index, spec, value in present:
            if not spec.is_offset:
                struct.pack_into(f"<{spec.kind.value}", self.out, at + places[index], value)
        for index, spec, value in present:
            if spec.is_offset:
                self.point(at + places[index], self.target(spec, value))
        return at

    def vtable(self, places: dict[int, int], size: int) -> int:
        """The position of a vtable; equal ones are shared."""
        slots = [places.get(index, 0) for index in range(max(places, default=-1) + 1)]
        packed = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), size, *slots)
        if packed not in self.vtables:
            self.align(2)
            self.vtables[packed] = len(self.out)
            self.out.extend(packed)
        return self.vtables[packed]

    def target(self, spec: _Spec, value: Any) -> int:
        if spec.many:
            return self.vector(spec, value)
        return self.string(value) if spec.kind is Kind.STRING else self.table(value)

    def vector(self, spec: _Spec, values: tuple[Any, ...] | bytes) -> int:
        if spec.kind not in (Kind.STRING, Kind.TABLE):
            return self.numbers(spec.kind.value, values)
        self.align(4)
        at = len(self.out)
        self.out.extend(struct.pack("<I", len(values)) + b"\0" * (4 * len(values)))
        one = _Spec(spec.kind, spec.of, many=False)
        for index, value in enumerate(values):
            self.point(at + 4 + 4 * index, self.target(one, value))
        return at

    def numbers(self, letter: str, values: tuple[int, ...] | bytes) -> int:
        self.align(4)
        self.align(struct.calcsize(letter), ahead=4)
        at = len(self.out)
        self.out.extend(struct.pack(f"<I{len(values)}{letter}", len(values), *values))
        return at

    def string(self, text: str) -> int:
        data = text.encode(errors="replace")
        self.align(4)
        at = len(self.out)
        self.out.extend(struct.pack("<I", len(data)) + data + b"\0")
        return at

    def point(self, at: int, target: int) -> None:
        struct.pack_into("<I", self.out, at, target - at)


def _places(sizes: list[tuple[int, int]]) -> tuple[dict[int, int], int]:
    """Where in its table each slot lies, widest first, and the table's size."""
    places, end = {}, 4
    for index, size in sorted(sizes, key=lambda pair: -pair[1]):
        end += -end % size
        places[index] = end
        end += size
    return places, end


def parse(table: type[T], data: bytes) -> T:
    """The root table of a buffer; whatever points outside it is a `QpcError`."""
    reader = _Reader(data, [_MAX_TABLES])
    found: T = reader.table(table, reader.follow(0))
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    data: bytes
    left: list[int]

    def table(self, table: Any, at: int) -> Any:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise QpcError(f"metadata holds more than {_MAX_TABLES} tables")
        vtable_at = at - self.number("i", at)
        vtable_size = self.number("H", vtable_at)
        if vtable_size < 4 or vtable_size % 2:
            raise QpcError(f"metadata has a vtable of {vtable_size} bytes at {vtable_at}")
        values = {}
        for index, (name, spec) in enumerate(_slots(table)):
            entry = 4 + 2 * index
            offset = self.number("H", vtable_at + entry) if entry < vtable_size else 0
            if offset:
                values[name] = self.value(spec, at + offset)
        return table(**values)

    def value(self, spec: _Spec, at: int) -> Any:
        if not spec.is_offset:
            return self.number(spec.kind.value, at)
        target = self.follow(at)
        if spec.many:
            return self.vector(spec, target)
        return self.one(spec, target)

    def one(self, spec: _Spec, at: int) -> Any:
        if spec.kind is Kind.STRING:
            return self.string(at)
        assert spec.of is not None
        return self.table(spec.of, at)

    def vector(self, spec: _Spec, at: int) -> tuple[Any, ...] | bytes:
        count, start = self.number("I", at), at + 4
        one = _Spec(spec.kind, spec.of, many=False)
        raw = self.span(start, count * one.size)
        if one.is_offset:
            places = range(start, start + 4 * count, 4)
            return tuple(self.one(one, self.follow(place)) for place in places)
        if one.kind is Kind.UINT8:
            return raw
        return struct.unpack(f"<{count}{one.kind.value}", raw)

    def string(self, at: int) -> str:
        length = self.number("I", at)
        raw = self.span(at + 4, length + 1)
        if raw[-1]:
            raise QpcError(f"metadata has a text at {at} that does not end with NUL")
        return raw[:-1].decode(errors="backslashreplace")

    def follow(self, at: int) -> int:
        return at + self.number("I", at)

    def number(self, letter: str, at: int) -> int:
        found: int = struct.unpack(f"<{letter}", self.span(at, struct.calcsize(f"<{letter}")))[0]
        return found

    def span(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > len(self.data):
            raise QpcError(
                f"metadata points at bytes {start} to {start + size} of {len(self.data)}"
            )
        return self.data[start : start + size]
