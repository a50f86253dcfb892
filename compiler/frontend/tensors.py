"""ONNX tensors as types and constants; their values are read only when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import DoesNotFitError, ModelError, ModelFileError, UnsupportedError
from compiler.frontend.external_data import Span, external_span
from compiler.frontend.text import text
from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, TensorType

# assumed: shape arithmetic, scalars and bias vectors stay below this; larger tensors are weights
# whose values no shape depends on.
SMALL_ELEMENTS = 4096

# assumed: far above the DDR of any card (128 GB on ultra), so nothing that could run is refused;
# it stops a file that declares absurd extents before anything is allocated.
MAX_TENSOR_BYTES = 1 << 40

_MOST_DIMS = 64
"""What one numpy array may have (numpy 2.0 release notes)."""

_DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.FLOAT32,
    TensorProto.FLOAT16: DType.FLOAT16,
    TensorProto.BFLOAT16: DType.BFLOAT16,
    TensorProto.DOUBLE: DType.FLOAT64,
    TensorProto.INT8: DType.INT8,
    TensorProto.INT16: DType.INT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.UINT64: DType.UINT64,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.STRING: DType.STRING,
    TensorProto.FLOAT8E4M3FN: DType.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.FLOAT8E5M2FNUZ,
    TensorProto.FLOAT4E2M1: DType.FLOAT4E2M1,
    TensorProto.INT4: DType.INT4,
    TensorProto.UINT4: DType.UINT4,
    TensorProto.INT2: DType.INT2,
    TensorProto.UINT2: DType.UINT2,
}
_ELEM_TYPES = {dtype: elem_type for elem_type, dtype in _DTYPES.items()}
_NUMPY_DTYPES = {
    dtype: np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    for elem_type, dtype in _DTYPES.items()
}
_DTYPES_BY_NUMPY = {numpy_dtype: dtype for dtype, numpy_dtype in _NUMPY_DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Literal:
    """A `Constant.load` that holds its values."""

    array: Array

    def __call__(self) -> Array:
        """The values."""
        return self.array


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A `Constant.load` that reads a span of a file, little-endian and without header."""

    span: Span
    type: TensorType

    def __call__(self) -> Array:
        """The values, read anew."""
        values = np.frombuffer(self.span.read(), dtype=numpy_dtype(self.type.dtype))
        return values.reshape(self.type.shape)

    def pieces(self, elements: int) -> Iterator[Array]:
        """As `compiler.ir.graph.InPieces` says."""
        size = self.type.dtype.size_bytes
        for start in range(0, self.type.elements, elements):
            count = min(elements, self.type.elements - start)
            data = self.span.part(start * size, count * size)
            yield np.frombuffer(data, dtype=numpy_dtype(self.type.dtype))


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """A `Constant.load` that reads a span of a file in which elements share bytes."""

    span: Span
    type: TensorType

    def __call__(self) -> Array:
        """The values, read anew."""
        elem_type, dims = elem_type_of(self.type.dtype), self.type.shape
        proto = TensorProto(data_type=elem_type, dims=dims, raw_data=self.span.read())
        return _decode(proto)


def dtype_of(elem_type: int, where: str) -> DType:
    """The element type of an ONNX `data_type` number; `where` begins the error's text."""
    dtype = _DTYPES.get(elem_type)
    if dtype is None:
        known = elem_type in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(elem_type) if known else str(elem_type)
        raise UnsupportedError(
            f"{where} has element type {name}, which is not supported; convert it to FLOAT"
        )
    return dtype


def elem_type_of(dtype: DType) -> int:
    """The ONNX `data_type` number of an element type."""
    return _ELEM_TYPES[dtype]


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The numpy type that holds an element type (`object` for strings)."""
    return _NUMPY_DTYPES[dtype]


def type_of_array(array: Array) -> TensorType:
    """The tensor type of a numpy array."""
    dtype = DType.STRING if array.dtype.kind in "OUST" else _DTYPES_BY_NUMPY.get(array.dtype)
    if dtype is None:
        raise UnsupportedError(
            f"a folded value has element type {array.dtype}, which is not supported; "
            "convert it to float32"
        )
    return TensorType(dtype, array.shape)


def literal(array: Array) -> Constant:
    """A constant that holds `array`, which must not change any more."""
    array.setflags(write=False)
    return Constant(type_of_array(array), Literal(array))


def empty(tensor_type: TensorType) -> Constant:
    """A tensor without elements: its values are known, whoever makes it."""
    return literal(np.empty(tensor_type.shape, numpy_dtype(tensor_type.dtype)))


def check_size(tensor_type: TensorType, where: str) -> None:
    """Refuse a tensor that no card could hold, before anything is allocated."""
    if tensor_type.size_bytes > MAX_TENSOR_BYTES:
        shape = "x".join(str(extent) for extent in tensor_type.shape)
        raise DoesNotFitError(
            f"{where} of shape {shape} takes {tensor_type.size_bytes / 2**40:.1f} TiB, a tensor "
            f"may take {MAX_TENSOR_BYTES / 2**40:.0f} TiB; lower the batch size or its extents"
        )


def constant_of(proto: TensorProto, folder: Path, embedded: Span | None = None) -> Constant:
    """The constant that a tensor of a model file stands for.

    `folder` is where external data may lie; `embedded` says where in the model file the raw bytes
    are, when they were left out of `proto`.
    """
    where = f"tensor '{text(proto.name)}'"
    tensor_type = _declared_type(proto, where)
    if embedded is not None:
        return _in_file(embedded, tensor_type, where)
    if proto.data_location == TensorProto.EXTERNAL:
        span = external_span(proto, folder, _file_bytes(tensor_type))
        return _in_file(span, tensor_type, where)
    _check_stored(proto, tensor_type, where)
    if tensor_type.elements <= SMALL_ELEMENTS:
        return literal(_decode(proto))
    return Constant(tensor_type, _decoder(proto))


def _declared_type(proto: TensorProto, where: str) -> TensorType:
    shape = tuple(proto.dims)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{where} declares a negative extent in {list(shape)}")
    if len(shape) > _MOST_DIMS:
        raise UnsupportedError(
            f"{where} has {len(shape)} dims, supported are up to {_MOST_DIMS}; export it flatter"
        )
    tensor_type = TensorType(dtype_of(proto.data_type, where), shape)
    check_size(tensor_type, where)
    return tensor_type


def _in_file(span: Span, tensor_type: TensorType, where: str) -> Constant:
    needed = _file_bytes(tensor_type)
    if tensor_type.dtype is DType.STRING or span.length_bytes != needed:
        raise ModelFileError(
            f"{where} needs {needed} bytes, {span.path.name} holds "
            f"{span.length_bytes} for it; the file is damaged"
        )
    if needed != tensor_type.size_bytes:
        return Constant(tensor_type, PackedTensor(span, tensor_type))
    load = FileTensor(span, tensor_type)
    return (
        literal(load()) if tensor_type.elements <= SMALL_ELEMENTS else Constant(tensor_type, load)
    )


# Elements of a typed field that hold one element of these types (onnx.proto, TensorProto).
_FIELDS = {
    DType.FLOAT32: "float_data",
    DType.FLOAT64: "double_data",
    DType.INT64: "int64_data",
    DType.UINT32: "uint64_data",
    DType.UINT64: "uint64_data",
    DType.STRING: "string_data",
}


def _check_stored(proto: TensorProto, tensor_type: TensorType, where: str) -> None:
    if proto.HasField("raw_data"):
        stored, needed, unit = len(proto.raw_data), _file_bytes(tensor_type), "bytes"
    else:
        field = _FIELDS.get(tensor_type.dtype, "int32_data")
        is_packed = tensor_type.dtype.file_bits < 8
        needed = _file_bytes(tensor_type) if is_packed else tensor_type.elements
        stored, unit = len(getattr(proto, field)), "elements"
    if stored != needed:
        raise ModelError(
            f"{where} declares {needed} {unit} but holds {stored}; the file is damaged"
        )


def _file_bytes(tensor_type: TensorType) -> int:
    return -(-tensor_type.elements * tensor_type.dtype.file_bits // 8)


def _decode(proto: TensorProto) -> Array:
    return np.asarray(numpy_helper.to_array(proto))


def _decoder(proto: TensorProto) -> Callable[[], Array]:
    return lambda: _decode(proto)
