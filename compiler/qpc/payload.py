"""Our own segments: a JSON head, then columns of numbers; and dataclasses as plain JSON values.

A dataclass becomes the list of its fields, so that a field that is added to one needs no word
here. By the digest of the fields, `layout_of`, a reader knows whether it agrees with the writer.
"""

from __future__ import annotations

import hashlib
import json
import struct
import types
import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from compiler.errors import QpcError

T = TypeVar("T")
Array = NDArray[Any]

_START = struct.Struct("<IIQ")
"""Checksum of all that follows it, revision of this envelope, bytes of the head."""
_REVISION = 1
_ALIGNMENT = 8


def seal(head: object, columns: Sequence[Array] = ()) -> bytes:
    """The bytes of a segment; the columns' dtypes and lengths are for the reader to know."""
    text = json.dumps(head, separators=(",", ":"), default=_plain_number).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    parts = [_START.pack(0, _REVISION, len(text))[4:], text]
    for column in columns:
        data = column.tobytes()
        parts += [data, b"\0" * (-len(data) % _ALIGNMENT)]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([struct.pack("<I", checksum), *parts])


def _plain_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be written")


def unseal(content: bytes, what: str) -> tuple[Any, memoryview]:
    """Head and columns of a segment that `seal` wrote; `QpcError` where it is damaged."""
    if len(content) < _START.size:
        raise QpcError(f"the {what} segment has {len(content)} bytes, too few")
    checksum, revision, length = _START.unpack_from(content)
    body = memoryview(content)
    if zlib.crc32(body[4:]) != checksum:
        raise QpcError(f"the {what} segment is damaged: its checksum is not {checksum:08x}")
    if revision != _REVISION or length > len(content) - _START.size:
        raise QpcError(
            f"the {what} segment is of revision {revision} with a head of {length} bytes; "
            f"revision {_REVISION} is read, from {len(content)} bytes"
        )
    end = _START.size + length
    try:
        return json.loads(bytes(body[_START.size : end])), body[end:]
    except (ValueError, RecursionError) as error:
        raise QpcError(f"the {what} segment is damaged: {error}") from error


def columns_of(body: memoryview, dtypes: Sequence[Any], lengths: Sequence[int]) -> list[Array]:
    """The columns behind a head."""
    arrays: list[Array] = []
    at = 0
    for dtype, length in zip(dtypes, lengths, strict=True):
        size = length * np.dtype(dtype).itemsize
        if length < 0 or at + size > len(body):
            raise ValueError(f"a column of {size} bytes at {at} passes the end, {len(body)}")
        arrays.append(np.frombuffer(body[at : at + size], dtype=dtype))
        at += size + -size % _ALIGNMENT
    return arrays


def plain(value: object) -> object:
    """A value of dataclasses, enums, tuples, numbers and texts as JSON knows it."""
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Enum):
        return value.value
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def restored(hint: type[T], value: object) -> T:
    """The value of type `hint` that `plain` was given; `ValueError` where it is none."""
    kind: Any = hint
    result: T = _reader(kind)(value)
    return result


Reader = Callable[[Any], Any]


@cache
def _reader(hint: Any) -> Reader:
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _dataclass_reader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if get_origin(hint) is tuple:
        return _tuple_reader(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return _optional_reader(hint)
    return _scalar_reader(hint)


def _dataclass_reader(hint: type[Any]) -> Reader:
    hints = get_type_hints(hint)
    readers = {field.name: _reader(hints[field.name]) for field in fields(hint)}

    def read(value: Any) -> Any:
        row = _listed(value, len(readers), hint.__name__)
        pairs = zip(readers.items(), row, strict=True)
        return hint(**{name: reader(item) for (name, reader), item in pairs})

    return read


def _listed(value: Any, length: int, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"a {what} is no list of {length}")
    return value


def _tuple_reader(items: tuple[Any, ...]) -> Reader:
    if len(items) == 2 and items[1] is Ellipsis:
        each = _reader(items[0])

        def read_any(value: Any) -> Any:
            if not isinstance(value, list):
                raise ValueError(f"{type(value).__name__} found where a list belongs")
            return tuple(each(item) for item in value)

        return read_any
    readers = [_reader(item) for item in items]

    def read(value: Any) -> Any:
        row = _listed(value, len(readers), "tuple")
        return tuple(reader(item) for reader, item in zip(readers, row, strict=True))

    return read


def _optional_reader(hint: Any) -> Reader:
    (inner,) = [arm for arm in get_args(hint) if arm is not type(None)]
    reader = _reader(inner)
    return lambda value: None if value is None else reader(value)


def _scalar_reader(hint: Any) -> Reader:
    allowed = {float: (float, int)}.get(hint, (hint,))

    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise ValueError(f"{type(value).__name__} found where {hint.__name__} belongs")
        return value

    return read


def layout_of(*hints: Any) -> str:
    """Digest of the fields, and their types, of dataclasses and of what these hold."""
    lines: list[str] = []
    for hint in hints:
        _describe(hint, lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _describe(hint: Any, lines: list[str]) -> None:
    for inner in get_args(hint):
        _describe(inner, lines)
    if is_dataclass(hint) and isinstance(hint, type):
        for name, field_hint in get_type_hints(hint).items():
            lines.append(f"{hint.__name__}.{name}: {field_hint!r}")
            _describe(field_hint, lines)
