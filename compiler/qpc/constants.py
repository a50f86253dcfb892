"""constants.bin: each constant of a graph once, as the device stores it.

Floats are fp16, finite ones clipped to its range, or MXFP6 blocks; integers have at most 32 bits
where their values allow it. Two kinds of constants
keep what they have: quantisation scales stay float32, because they are factors of integer work
and no activations; tiny ones (`INLINE_ELEMENTS`) are immediates of the program and lie, exact,
with the graph. Values pass through memory one constant at a time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, Graph, InPieces, Node, TensorType, value_of
from compiler.ir.mxfp6 import Mxfp6Weights, packed_bytes, unpacked
from compiler.qpc.container import CONSTANTS, Container

INLINE_ELEMENTS = 16
"""assumed: shapes, axes, pads, scalars and scales of a resize stay below; weights do not."""
_ALIGNMENT = 128
"""One HVX vector."""
_CHUNK_ELEMENTS = 1 << 20
"""assumed: two to eight megabytes at a time; large enough that calls do not count."""
_NARROW = {DType.INT64: DType.INT32, DType.UINT64: DType.UINT32}
_DESCRIPTOR = struct.Struct("<QQBB6x")
_MAX_RANK = 64
"""The most dimensions that numpy arrays have."""


def descriptor(static_bytes: int) -> bytes:
    """The constantsdesc.bin (AICConstantDescriptor): all constants static, no ECC."""
    return _DESCRIPTOR.pack(static_bytes, 0, 0, 0)


def described_bytes(content: bytes) -> tuple[int, int]:
    """Static and dynamic bytes that a constantsdesc.bin states."""
    if len(content) != _DESCRIPTOR.size:
        raise QpcError(f"the constants descriptor has {len(content)} bytes, not 24")
    static_bytes, dynamic_bytes, _, _ = _DESCRIPTOR.unpack(content)
    return static_bytes, dynamic_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a constant lies in constants.bin, and in which element type.

    With a `packed_axis` of 0 or more it lies in MXFP6 blocks along that axis.
    """

    stored: DType
    offset: int
    size_bytes: int
    checksum: int
    packed_axis: int = -1


@dataclass(slots=True)
class ConstantImage:
    """The content of a constants.bin; `checksums` fill as it is streamed.

    `places` maps each name to a place in `constants`: names that share a constant share its bytes.
    """

    constants: list[Constant] = field(default_factory=list)
    stored: list[DType] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0

    def chunks(self) -> Iterator[bytes]:
        """The content from its start."""
        at = 0
        for constant, stored, offset in zip(
            self.constants, self.stored, self.offsets, strict=True
        ):
            yield b"\0" * (offset - at)
            checksum = 0
            for chunk in _stored_chunks(constant, stored):
                checksum = zlib.crc32(chunk, checksum)
                yield chunk
            self.checksums.append(checksum)
            at = offset + _size_bytes(constant, stored)

    def place(self, name: str) -> Place:
        """Where `name` lies; only after it has been streamed."""
        index = self.places[name]
        stored = self.stored[index]
        constant = self.constants[index]
        size, load = _size_bytes(constant, stored), _loaded(constant)
        axis = load.axis if isinstance(load, Mxfp6Weights) else -1
        return Place(stored, self.offsets[index], size, self.checksums[index], axis)


def image_of(graph: Graph) -> ConstantImage:
    """The layout of the constants of `graph`, in the graph's order, without the tiny ones."""
    image, indices = ConstantImage(), dict[int, int]()
    exact = _exact_floats(graph)
    for name, constant in graph.constants.items():
        if is_inline(constant):
            continue
        index = indices.get(id(constant))
        if index is None:
            index = indices[id(constant)] = _append(image, constant, name in exact)
        image.places[name] = index
    return image


def is_inline(constant: Constant) -> bool:
    """Whether the values go with the graph; texts do, since no device holds them."""
    return constant.type.elements <= INLINE_ELEMENTS or constant.type.dtype is DType.STRING


def _append(image: ConstantImage, constant: Constant, exact: bool) -> int:
    stored = _stored_dtype(constant, exact)
    offset = image.size_bytes + -image.size_bytes % _ALIGNMENT
    image.constants.append(constant)
    image.stored.append(stored)
    image.offsets.append(offset)
    image.size_bytes = offset + _size_bytes(constant, stored)
    return len(image.constants) - 1


def _loaded(constant: Constant) -> object:
    """What loads the values, of whatever class."""
    return constant.load


def _size_bytes(constant: Constant, stored: DType) -> int:
    load = _loaded(constant)
    if isinstance(load, Mxfp6Weights):
        return load.stored_bytes
    return constant.type.elements * stored.size_bytes


def _exact_floats(graph: Graph) -> frozenset[str]:
    """Names of what may be the scale of a quantised operator."""
    return frozenset(
        name for node in graph.nodes if _quantises(node, graph) for name in node.inputs
    )


def _quantises(node: Node, graph: Graph) -> bool:
    """Whether floats beside its operands are scales: it quantises, or reads 8-bit numbers."""
    if "quantize" in node.op.lower():
        return True
    return any(
        graph.types[name].dtype in (DType.INT8, DType.UINT8) for name in node.inputs if name
    )


def _stored_dtype(constant: Constant, exact: bool) -> DType:
    dtype = constant.type.dtype
    if dtype.is_float:
        return DType.FLOAT32 if exact else DType.FLOAT16
    narrow = _NARROW.get(dtype)
    if narrow is None:
        return dtype
    bounds = np.iinfo(narrow.value)
    within = all(
        bounds.min <= piece.min() and piece.max() <= bounds.max for piece in _pieces(constant)
    )
    return narrow if within else dtype


def _pieces(constant: Constant) -> Iterator[Array]:
    """The values in pieces, where they can come so; else as they are."""
    load: object = constant.load
    if isinstance(load, InPieces):
        yield from load.pieces(_CHUNK_ELEMENTS)
    else:
        yield value_of(constant)


def _stored_chunks(constant: Constant, stored: DType) -> Iterator[bytes]:
    """The values in row-major order, converted piece by piece; packed ones as their blocks."""
    load = _loaded(constant)
    if isinstance(load, Mxfp6Weights):
        yield from load.packed()
        return
    dtype = numpy_dtype(stored)
    for piece in _pieces(constant):
        for flat in _flat(piece):
            yield _narrowed(flat, dtype).tobytes()


def _flat(values: Array) -> Iterator[Array]:
    """Pieces of an array in row-major order, whatever its strides, without a copy of the whole."""
    pieces = np.nditer(
        values,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=["readonly"],
        order="C",
        buffersize=_CHUNK_ELEMENTS,
    )
    for piece in map(np.asarray, pieces):
        # What lies in a row already comes in one piece.
        for start in range(0, len(piece), _CHUNK_ELEMENTS):
            yield piece[start : start + _CHUNK_ELEMENTS]


def _narrowed(values: Array, dtype: np.dtype[Any]) -> Array:
    """In the stored type; finite values beyond its range become its largest."""
    if values.dtype.name not in np.sctypeDict:
        values = values.astype(np.float32)
    try:
        with np.errstate(over="raise"):
            return values.astype(dtype)
    except FloatingPointError:
        largest = np.finfo(dtype).max
        inside = np.clip(values, -largest, largest)
        return np.where(np.isfinite(values), inside, values).astype(dtype)


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of an element type."""
    if dtype is DType.BFLOAT16 or dtype.is_narrow:
        import ml_dtypes  # the package by which onnx gives numpy these types

        other: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.value))
        return other
    return np.dtype(object if dtype is DType.STRING else dtype.value)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A `Constant.load` that reads constants.bin."""

    container: Container
    place: Place
    type: TensorType

    def __call__(self) -> Array:
        """The values as the device has them, in the element type of the graph."""
        data = self.container.part(CONSTANTS, self.place.offset, self.place.size_bytes)
        if zlib.crc32(data) != self.place.checksum:
            raise QpcError(
                f"{self.container.path}: {self.place.size_bytes} bytes at {self.place.offset} of "
                f"{CONSTANTS} are damaged"
            )
        if self.place.packed_axis >= 0:
            return unpacked(data, self.type.shape, self.place.packed_axis)
        values = np.frombuffer(data, dtype=numpy_dtype(self.place.stored))
        return values.astype(numpy_dtype(self.type.dtype), copy=False).reshape(self.type.shape)


def check_place(place: Place, type_: TensorType, sizes: Mapping[str, int]) -> None:
    """Raise `ValueError` where a place contradicts the constant's type or the file."""
    if len(type_.shape) > _MAX_RANK or any(extent < 0 for extent in type_.shape):
        raise ValueError(f"a constant has shape {type_.shape}")
    if place.packed_axis >= len(type_.shape):
        raise ValueError(f"a constant of shape {type_.shape} is packed along {place.packed_axis}")
    if place.stored is DType.STRING or place.size_bytes != (
        packed_bytes(type_.shape, place.packed_axis)
        if place.packed_axis >= 0
        else prod(type_.shape) * place.stored.size_bytes
    ):
        raise ValueError(f"{place.size_bytes} bytes hold a constant of shape {type_.shape}")
    if place.offset < 0 or place.offset + place.size_bytes > sizes.get(CONSTANTS, 0):
        raise ValueError(f"a constant lies at {place.offset}, outside {CONSTANTS}")
