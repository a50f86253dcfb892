"""The protobuf wire format for messages that are written as dataclasses.

Each field of such a class is made by `proto`, which says its number and kind; defaults are those
of proto3. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import Field, field, fields, is_dataclass
from enum import Enum, IntEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from compiler.errors import QpcError

M = TypeVar("M")


class Kind(Enum):
    """How a field's value is written."""

    UINT32 = "uint32"
    UINT64 = "uint64"
    INT32 = "int32"
    BOOL = "bool"
    ENUM = "enum"
    FLOAT = "float"
    STRING = "string"
    MESSAGE = "message"


class Wire(IntEnum):
    """The low bits of a tag."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


class _Spec(NamedTuple):
    number: int
    kind: Kind
    of: type[Any] | None
    many: bool


_FLOAT = struct.Struct("<f")
_MAX_VARINT_BYTES = 10
_DEFAULTS: dict[Kind, object] = {Kind.BOOL: False, Kind.FLOAT: 0.0, Kind.STRING: ""}


def proto(number: int, kind: Kind, of: type[Any] | None = None, *, many: bool = False) -> Any:
    """A dataclass field with a place in the message; `of` is the class of an enum or message.

    A repeated field is a tuple, an absent message is `None`, other defaults are zero.
    """
    spec = _Spec(number, kind, of, many)
    return field(default=_default(spec), metadata={"proto": spec})


def _default(spec: _Spec) -> object:
    if spec.many:
        return ()
    if spec.kind is Kind.MESSAGE:
        return None
    if spec.kind is Kind.ENUM and spec.of is not None:
        return spec.of(0)
    return _DEFAULTS.get(spec.kind, 0)


@cache
def _specs(message: type[Any]) -> tuple[tuple[str, _Spec], ...]:
    listed: tuple[Field[Any], ...] = fields(message)
    return tuple((f.name, f.metadata["proto"]) for f in listed)


def encode(message: Any) -> bytes:
    """The bytes of a message, fields in the order of the class, repeated numbers packed."""
    kind: Any = type(message)
    out = bytearray()
    for name, spec in _specs(kind):
        value = getattr(message, name)
        if spec.many:
            _put_many(out, spec, value)
        elif value != _default(spec):
            _put(out, spec, value)
    return bytes(out)


def _put_many(out: bytearray, spec: _Spec, values: tuple[Any, ...]) -> None:
    if spec.kind in (Kind.STRING, Kind.MESSAGE):
        for value in values:
            _put(out, spec, value)
    elif values:
        packed = bytearray()
        for value in values:
            _put_scalar(packed, spec.kind, value)
        _put_tag(out, spec.number, Wire.BYTES)
        _put_bytes(out, packed)


def _put(out: bytearray, spec: _Spec, value: Any) -> None:
    wire = _wire_of(spec.kind)
    _put_tag(out, spec.number, wire)
    if spec.kind is Kind.STRING:
        # A name may hold what no Unicode text can; proto3 strings must be valid.
        _put_bytes(out, value.encode(errors="replace"))
    elif spec.kind is Kind.MESSAGE:
        _put_bytes(out, encode(value))
    else:
        _put_scalar(out, spec.kind, value)


def _wire_of(kind: Kind) -> Wire:
    if kind is Kind.FLOAT:
        return Wire.FIXED32
    return Wire.BYTES if kind in (Kind.STRING, Kind.MESSAGE) else Wire.VARINT


def _put_tag(out: bytearray, number: int, wire: Wire) -> None:
    _put_varint(out, number << 3 | wire)


def _put_bytes(out: bytearray, data: bytes | bytearray) -> None:
    _put_varint(out, len(data))
    out += data


def _put_scalar(out: bytearray, kind: Kind, value: Any) -> None:
    if kind is Kind.FLOAT:
        out += _FLOAT.pack(value)
        return
    number = int(value)
    low, high = _RANGES[kind]
    if not low <= number < high:
        raise QpcError(f"{number} does not fit a {kind.value} of the network descriptor")
    _put_varint(out, number % 2**64)


_RANGES = {
    Kind.UINT32: (0, 2**32),
    Kind.UINT64: (0, 2**64),
    Kind.INT32: (-(2**31), 2**31),
    Kind.ENUM: (-(2**31), 2**31),
    Kind.BOOL: (0, 2),
}


def _put_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def decode(message: type[M], data: bytes) -> M:
    """A message of its bytes; unknown fields are skipped, damage is a `QpcError`."""
    assert is_dataclass(message)
    specs = {spec.number: (name, spec) for name, spec in _specs(message)}
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for number, wire, value in _records(data):
        if number in specs:
            name, spec = specs[number]
            found[name] += _values(spec, wire, value)
    named = {name: spec for name, spec in specs.values()}
    return message(**{name: _collected(named[name], values) for name, values in found.items()})


def _records(data: bytes) -> Iterator[tuple[int, Wire, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        try:
            wire = Wire(tag & 7)
        except ValueError as error:
            raise QpcError(f"byte {at} of a message has wire type {tag & 7}") from error
        if wire is Wire.VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, wire, value
            continue
        size, at = (8 if wire is Wire.FIXED64 else 4, at)
        if wire is Wire.BYTES:
            size, at = _varint(data, at)
        if size > len(data) - at:
            raise QpcError(f"a field of {size} bytes at {at} passes the message's {len(data)}")
        yield tag >> 3, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number % 2**64, at + count + 1
    raise QpcError(f"a number at byte {at} of a message does not end")


def _values(spec: _Spec, wire: Wire, value: int | bytes) -> list[Any]:
    expected = _wire_of(spec.kind)
    if wire is expected:
        return [_value(spec, value)]
    if spec.many and wire is Wire.BYTES and isinstance(value, bytes):
        return [_value(spec, number) for number in _unpacked(expected, value)]
    raise QpcError(f"field {spec.number} has wire type {wire.value}, not {expected.value}")


def _unpacked(wire: Wire, data: bytes) -> Iterator[int | bytes]:
    at = 0
    while at < len(data):
        if wire is Wire.VARINT:
            number, at = _varint(data, at)
            yield number
        elif len(data) - at < _FLOAT.size:
            raise QpcError(f"packed floats end with {len(data) - at} odd bytes")
        else:
            yield data[at : at + _FLOAT.size]
            at += _FLOAT.size


def _value(spec: _Spec, value: int | bytes) -> Any:
    if isinstance(value, bytes):
        return _of_bytes(spec, value)
    if spec.kind is Kind.BOOL:
        return bool(value)
    if spec.kind is Kind.UINT64:
        return value
    number = value % 2**32
    if spec.kind in (Kind.INT32, Kind.ENUM) and number >= 2**31:
        number -= 2**32
    return _member(spec, number) if spec.kind is Kind.ENUM else number


def _member(spec: _Spec, number: int) -> Any:
    assert spec.of is not None
    try:
        return spec.of(number)
    except ValueError as error:
        raise QpcError(f"{number} is no {spec.of.__name__}") from error


def _of_bytes(spec: _Spec, data: bytes) -> Any:
    if spec.kind is Kind.FLOAT:
        return _FLOAT.unpack(data)[0]
    if spec.kind is Kind.STRING:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise QpcError(f"text of field {spec.number} is no UTF-8") from error
    return data


def _collected(spec: _Spec, values: list[Any]) -> Any:
    if spec.kind is not Kind.MESSAGE:
        return tuple(values) if spec.many else values[-1]
    assert spec.of is not None
    if spec.many:
        return tuple(decode(spec.of, data) for data in values)
    # Parts of one message are merged, which is what their bytes in a row mean.
    return decode(spec.of, b"".join(values))
