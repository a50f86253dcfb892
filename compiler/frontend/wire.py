"""The protobuf wire format of a model file, as far as needed to leave big weights on disk.

A model file is one message. Field numbers are those of onnx.proto; the wire format is described
at protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9

# onnx.proto, ModelProto: every field's number and wire type.
_MODEL_FIELDS = {
    1: _VARINT,
    2: _BYTES,
    3: _BYTES,
    4: _BYTES,
    5: _VARINT,
    6: _BYTES,
    7: _BYTES,
    8: _BYTES,
    14: _BYTES,
    20: _BYTES,
    25: _BYTES,
    26: _BYTES,
}

# assumed: smaller graphs and tensors cost more to take apart than to hold.
_WHOLE_GRAPH_BYTES = 1 << 23
_WHOLE_TENSOR_BYTES = 1 << 16


class Buffer(Protocol):
    """What is scanned: bytes, or a memory-mapped file of which only touched pages are read."""

    def __len__(self) -> int:
        """Number of bytes."""

    def __getitem__(self, key: slice, /) -> bytes:
        """A copy of some bytes."""


class TruncatedError(Exception):
    """A field runs past the end of the data."""


class CorruptError(Exception):
    """The data are not a message of the expected kind."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its tag starts at `start`, its payload at `payload`."""

    number: int
    wire_type: int
    start: int
    payload: int
    end: int


@dataclass(frozen=True, slots=True)
class Payload:
    """Where the raw bytes of the `index`-th initializer lie in the file."""

    index: int
    offset_bytes: int
    length_bytes: int


def scan_model(data: Buffer) -> tuple[bytes, tuple[Payload, ...]]:
    """The model message without the raw bytes of its big initializers, and where those are.

    Raises `TruncatedError` or `CorruptError` when `data` is no complete model message.
    """
    pieces: list[bytes] = []
    payloads: list[Payload] = []
    for field in _fields(data, 0, len(data)):
        if _MODEL_FIELDS.get(field.number, field.wire_type) != field.wire_type:
            raise CorruptError
        if field.number == _MODEL_GRAPH and field.end - field.payload > _WHOLE_GRAPH_BYTES:
            pieces.append(_shortened_graph(data, field, payloads))
        else:
            pieces.append(data[field.start : field.end])
    return b"".join(pieces), tuple(payloads)


def _shortened_graph(data: Buffer, graph: Field, payloads: list[Payload]) -> bytes:
    pieces: list[bytes] = []
    index = 0
    kept_from = graph.payload
    for field in _fields(data, graph.payload, graph.end):
        if field.number != _GRAPH_INITIALIZER or field.wire_type != _BYTES:
            continue
        raw = _raw_data(data, field)
        if raw is not None:
            payloads.append(Payload(index, raw.payload, raw.end - raw.payload))
            pieces.append(data[kept_from : field.start])
            tensor = data[field.payload : raw.start] + data[raw.end : field.end]
            pieces.append(_tagged(_GRAPH_INITIALIZER, tensor))
            kept_from = field.end
        index += 1
    pieces.append(data[kept_from : graph.end])
    return _tagged(_MODEL_GRAPH, b"".join(pieces))


def _raw_data(data: Buffer, tensor: Field) -> Field | None:
    if tensor.end - tensor.payload < _WHOLE_TENSOR_BYTES:
        return None
    fields = _fields(data, tensor.payload, tensor.end)
    found = [field for field in fields if field.number == _TENSOR_RAW_DATA]
    return found[0] if len(found) == 1 and found[0].wire_type == _BYTES else None


def _fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    position = start
    while position < end:
        tag, payload = _varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise CorruptError
        payload, after = _extent(data, wire_type, payload, end)
        if after > end:
            raise TruncatedError
        yield Field(number, wire_type, position, payload, after)
        position = after


def _extent(data: Buffer, wire_type: int, payload: int, end: int) -> tuple[int, int]:
    if wire_type == _VARINT:
        return payload, _varint(data, payload, end)[1]
    if wire_type == _BYTES:
        length, payload = _varint(data, payload, end)
        return payload, payload + length
    if wire_type in _FIXED_BYTES:
        return payload, payload + _FIXED_BYTES[wire_type]
    raise CorruptError


def _varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    chunk = data[position : min(position + 10, end)]
    value = 0
    for index, byte in enumerate(chunk):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise CorruptError if len(chunk) == 10 else TruncatedError


def _tagged(number: int, payload: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(payload)) + payload


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
