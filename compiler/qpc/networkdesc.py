"""The network descriptor: what the host runtime reads to move inputs and outputs.

The messages have the names and field numbers of the vendor's package `aicnwdesc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.program import Binding, Program
from compiler.qpc.protobuf import Kind, decode, encode, proto

MAJOR_VERSION, MINOR_VERSION = 9, 0


class DataType(IntEnum):
    """`dataType`."""

    FLOAT = 0
    FLOAT16 = 1
    INT8Q = 2
    UINT8Q = 3
    INT16Q = 4
    INT32Q = 5
    INT32I = 6
    INT64I = 7
    INT8 = 8


ELEMENT_BYTES = {
    DataType.FLOAT: 4,
    DataType.FLOAT16: 2,
    DataType.INT8Q: 1,
    DataType.UINT8Q: 1,
    DataType.INT16Q: 2,
    DataType.INT32Q: 4,
    DataType.INT32I: 4,
    DataType.INT64I: 8,
    DataType.INT8: 1,
}

# The descriptor has no code for boolean, bfloat16, double and most unsigned numbers. The host only
# copies bytes, so they go under an integer of their width; our own segment has the true type.
_DATA_TYPES = {
    DType.FLOAT32: DataType.FLOAT,
    DType.FLOAT16: DataType.FLOAT16,
    DType.BFLOAT16: DataType.INT16Q,
    DType.FLOAT64: DataType.INT64I,
    DType.INT8: DataType.INT8,
    DType.INT16: DataType.INT16Q,
    DType.INT32: DataType.INT32I,
    DType.INT64: DataType.INT64I,
    DType.UINT8: DataType.UINT8Q,
    DType.UINT16: DataType.INT16Q,
    DType.UINT32: DataType.INT32I,
    DType.UINT64: DataType.INT64I,
    DType.BOOL: DataType.INT8,
    **{dtype: DataType.INT8 for dtype in DType if dtype.is_narrow},
}


class Layout(IntEnum):
    """`networkDescLayout`."""

    FLAT_NXYD = 0
    D32_UNTILED = 1
    D32_UNTILED_WEIGHTS = 2
    D32_CHANNEL_MAJOR_8X8 = 3
    D32_CHANNEL_MAJOR_1X64 = 4
    D32_SPATIAL_MAJOR_8X8 = 5
    D32_SPATIAL_MAJOR_1X64 = 6
    D4_CHANNEL_MAJOR_8X8 = 7
    D4_SPATIAL_MAJOR_8X8 = 8
    PACKED_D4_CHANNEL_MAJOR_8X8 = 9
    PACKED_D4_SPATIAL_MAJOR_8X8 = 10


class TransformKind(IntEnum):
    """`transformKind`."""

    CONVERT = 0
    CONVERT_TO_D32 = 1
    CONVERT_FROM_D32 = 2
    DEQUANTIZE = 3
    TRANSPOSE = 4
    QUANTIZE = 5
    COPY_DMA_BUFFER = 6


class Direction(IntEnum):
    """`direction`, as the card sees it."""

    IN = 0
    OUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDmaBuffer:
    """`transform.CopyDMABuffer`."""

    direction: Direction = proto(1, Kind.ENUM, Direction)
    offset: int = proto(2, Kind.UINT32)
    buffer_num: int = proto(3, Kind.UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertToD32:
    """`transform.ConvertToD32`."""

    padding_val: int = proto(1, Kind.INT32)
    x_pad_begin: int = proto(2, Kind.INT32)
    y_pad_begin: int = proto(3, Kind.INT32)
    x_pad_end: int = proto(4, Kind.INT32)
    y_pad_end: int = proto(5, Kind.INT32)
    d_pad_end: int = proto(6, Kind.INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """`transform`: one step between the user's tensor and the DMA buffer."""

    kind: TransformKind = proto(1, Kind.ENUM, TransformKind)
    type: DataType = proto(2, Kind.ENUM, DataType)
    scale: float = proto(3, Kind.FLOAT)
    offset: int = proto(4, Kind.INT32)
    dims: tuple[int, ...] = proto(5, Kind.INT32, many=True)
    layout: Layout = proto(6, Kind.ENUM, Layout)
    shuffle: tuple[int, ...] = proto(7, Kind.INT32, many=True)
    convert_to_d32: ConvertToD32 | None = proto(8, Kind.MESSAGE, ConvertToD32)
    copy_dma_buffer: CopyDmaBuffer | None = proto(9, Kind.MESSAGE, CopyDmaBuffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoDescriptor:
    """`IODescriptor`: a tensor on one side of the transforms."""

    type: DataType = proto(1, Kind.ENUM, DataType)
    qscale: float = proto(2, Kind.FLOAT)
    qoffset: int = proto(3, Kind.INT32)
    dims: tuple[int, ...] = proto(4, Kind.INT32, many=True)
    layout: Layout = proto(5, Kind.ENUM, Layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoBinding:
    """`IOBinding`: an input or output that the user sees."""

    name: str = proto(1, Kind.STRING)
    io_initial: IoDescriptor | None = proto(2, Kind.MESSAGE, IoDescriptor)
    io_transformed: IoDescriptor | None = proto(3, Kind.MESSAGE, IoDescriptor)
    transformseq: tuple[Transform, ...] = proto(4, Kind.MESSAGE, Transform, many=True)
    is_partial_allowed: bool = proto(5, Kind.BOOL)
    align: int = proto(6, Kind.UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaBuffer:
    """`DMABuffer`; transforms and DMA requests name it by its place in the list."""

    size: int = proto(1, Kind.UINT32)
    direction: Direction = proto(2, Kind.ENUM, Direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorShape:
    """`tensorShape`."""

    type: DataType = proto(1, Kind.ENUM, DataType)
    dims: tuple[int, ...] = proto(2, Kind.INT32, many=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoShapes:
    """`IOShapes`: the shapes of one specialisation, inputs then outputs."""

    shapes: tuple[TensorShape, ...] = proto(1, Kind.MESSAGE, TensorShape, many=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDescriptor:
    """`networkDescriptor`, without statistics and checksums of buffers, which we have none of."""

    major_version: int = proto(1, Kind.UINT32)
    minor_version: int = proto(2, Kind.UINT32)
    network_name: str = proto(3, Kind.STRING)
    inputs: tuple[IoBinding, ...] = proto(4, Kind.MESSAGE, IoBinding, many=True)
    outputs: tuple[IoBinding, ...] = proto(5, Kind.MESSAGE, IoBinding, many=True)
    dma_buffers: tuple[DmaBuffer, ...] = proto(6, Kind.MESSAGE, DmaBuffer, many=True)
    num_cores: int = proto(7, Kind.UINT32)
    num_threads: int = proto(8, Kind.UINT32)
    num_hvx_threads: int = proto(9, Kind.UINT32)
    thread_groups: tuple[int, ...] = proto(10, Kind.UINT32, many=True)
    thread_group_issue_count: int = proto(11, Kind.UINT32)
    thread_group_names: tuple[str, ...] = proto(13, Kind.STRING, many=True)
    batch_size: int = proto(14, Kind.INT32)
    cluster_offsets: tuple[int, ...] = proto(17, Kind.UINT32, many=True)
    allowed_shapes: tuple[IoShapes, ...] = proto(18, Kind.MESSAGE, IoShapes, many=True)


HVX_THREADS, HMX_THREADS = 4, 1
"""Threads of the vendor's compiled networks: t0 to t3 HVX, t4 HMX (printed operator profiles)."""
_HVX_GROUP, _HMX_GROUP = 0, 1

BUFFER_ALIGNMENT = 64
"""assumed: a DMA burst; bindings that share a buffer start at multiples of it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Which host buffer a binding travels in, and where in it."""

    binding: Binding
    buffer_num: int
    offset_bytes: int


def host_buffers(
    program: Program, others: Sequence[Program] = ()
) -> tuple[tuple[Slot, ...], tuple[DmaBuffer, ...]]:
    """Where each input, then each output, lies in the host's DMA buffers, and these buffers.

    One buffer a binding, as large as the largest shape needs; with combined inputs (outputs) all
    of them share one.
    """
    options = program.options
    inputs = [_host_bytes(same) for same in _same_bindings(program, others, Direction.IN)]
    outputs = [_host_bytes(same) for same in _same_bindings(program, others, Direction.OUT)]
    slots, buffers = _buffers(
        program.inputs, inputs, Direction.IN, 0, combined=bool(options.combine_inputs)
    )
    out_slots, out_buffers = _buffers(
        program.outputs,
        outputs,
        Direction.OUT,
        len(buffers),
        combined=bool(options.combine_outputs),
    )
    return (*slots, *out_slots), (*buffers, *out_buffers)


def _same_bindings(
    program: Program, others: Sequence[Program], direction: Direction
) -> list[tuple[Binding, ...]]:
    """Each binding of `program` with the ones of its place in the other shapes."""
    sides = [
        one.inputs if direction is Direction.IN else one.outputs for one in (program, *others)
    ]
    names = [[binding.name for binding in side] for side in sides]
    for other in names[1:]:
        if other != names[0]:
            raise QpcError(f"one shape of the network binds {names[0]}, another {other}")
    return list(zip(*sides, strict=True))


def _buffers(
    bindings: tuple[Binding, ...],
    sizes: list[int],
    direction: Direction,
    first: int,
    *,
    combined: bool,
) -> tuple[list[Slot], list[DmaBuffer]]:
    if not combined or len(bindings) < 2:
        slots = [Slot(binding, first + at, 0) for at, binding in enumerate(bindings)]
        return slots, [DmaBuffer(size=size, direction=direction) for size in sizes]
    slots, end = [], 0
    for binding, size in zip(bindings, sizes, strict=True):
        end += -end % BUFFER_ALIGNMENT
        slots.append(Slot(binding, first, end))
        end += size
    return slots, [DmaBuffer(size=_checked(end, "the combined bindings"), direction=direction)]


def _host_bytes(shapes: tuple[Binding, ...]) -> int:
    """Bytes as the host runtime counts them, leaving out extents of zero; the largest shape's."""
    largest = 0
    for binding in shapes:
        elements = prod(max(extent, 1) for extent in binding.shape)
        largest = max(largest, elements * ELEMENT_BYTES[_data_type(binding)])
    return _checked(largest, f"'{shapes[0].name}'")


def _checked(size: int, what: str) -> int:
    if size >= 2**32:
        raise QpcError(
            f"{what} takes {size} bytes, a DMA buffer holds up to {2**32 - 1}; lower the batch "
            "size or its extents"
        )
    return size


def _data_type(binding: Binding) -> DataType:
    data_type = _DATA_TYPES.get(binding.dtype)
    if data_type is None:
        raise QpcError(f"'{binding.name}' holds {binding.dtype.value}, which no card can take")
    return data_type


def describe(program: Program, others: Sequence[Program] = ()) -> NetworkDescriptor:
    """The descriptor of a program; with `others`, all shapes that the network may be run in."""
    slots, buffers = host_buffers(program, others)
    inputs = len(program.inputs)
    return NetworkDescriptor(
        major_version=MAJOR_VERSION,
        minor_version=MINOR_VERSION,
        network_name=network_name(program),
        inputs=tuple(_binding(slot, Direction.IN) for slot in slots[:inputs]),
        outputs=tuple(_binding(slot, Direction.OUT) for slot in slots[inputs:]),
        dma_buffers=buffers,
        num_cores=program.options.num_cores,
        num_threads=HVX_THREADS + HMX_THREADS,
        num_hvx_threads=HVX_THREADS,
        thread_groups=(_HVX_GROUP,) * HVX_THREADS + (_HMX_GROUP,) * HMX_THREADS,
        thread_group_issue_count=2,
        thread_group_names=("HVX", "HMX"),
        batch_size=program.options.batch_size,
        cluster_offsets=_cluster_offsets(program.options),
        allowed_shapes=tuple(_shapes(one) for one in (program, *others)) if others else (),
    )


def _shapes(program: Program) -> IoShapes:
    bindings = (*program.inputs, *program.outputs)
    return IoShapes(
        shapes=tuple(TensorShape(type=_data_type(one), dims=one.shape) for one in bindings)
    )


def network_name(program: Program) -> str:
    """The model's name; the vendor's reader refuses an empty one."""
    return program.model_name or "network"


def _binding(slot: Slot, direction: Direction) -> IoBinding:
    binding = slot.binding
    data_type = _data_type(binding)
    # The vendor's writer states a scale of one where nothing is quantised.
    tensor = IoDescriptor(type=data_type, qscale=1.0, dims=binding.shape)
    copy = CopyDmaBuffer(direction=direction, offset=slot.offset_bytes, buffer_num=slot.buffer_num)
    step = Transform(
        kind=TransformKind.COPY_DMA_BUFFER,
        type=data_type,
        scale=1.0,
        dims=binding.shape,
        copy_dma_buffer=copy,
    )
    return IoBinding(
        name=binding.name,
        io_initial=tensor,
        io_transformed=tensor,
        transformseq=(step,),
        align=1,
    )


def _cluster_offsets(options: CompileOptions) -> tuple[int, ...]:
    """The first core of each cluster."""
    sizes = options.sdp_cluster_sizes or (options.num_cores,)
    return tuple(sum(sizes[:index]) for index in range(len(sizes)))


def serialise(program: Program, others: Sequence[Program] = ()) -> bytes:
    """The networkdesc.bin of a program, and of other shapes of its network."""
    return encode(describe(program, others))


def parse(content: bytes) -> NetworkDescriptor:
    """The descriptor in a networkdesc.bin; `QpcError` where it is damaged."""
    return decode(NetworkDescriptor, content)
