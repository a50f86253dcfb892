"""The network descriptor by google.protobuf: an oracle that shares nothing with our encoder.

The field numbers and types are the interface facts of the vendor's package `aicnwdesc`.
"""

from __future__ import annotations

import re
from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

MESSAGES = """
CRCEntry: 1 dma_buffer_num (uint32); 2 offset (uint32); 3 size (uint32); 4 crc_entry_idx
    (uint32); 5 begin_crc_block_size (uint32); 6 end_crc_block_size (uint32); 7 stride_interval
    (uint32); 8 stride_size (uint32); 9 algorithm (CRCAlgorithm)
CRCInfo: 1 buff_num (uint32); 2 entries (repeated CRCEntry)
tensorShape: 1 type (dataType); 2 dims (repeated int32)
IOShapes: 1 shapes (repeated tensorShape)
networkDescriptor: 1 major_version (uint32); 2 minor_version (uint32); 3 network_name (string);
    4 inputs (repeated IOBinding); 5 outputs (repeated IOBinding); 6 dma_buffers (repeated
    DMABuffer); 7 num_cores (uint32); 8 num_threads (uint32); 9 num_hvx_threads (uint32); 10
    thread_groups (repeated uint32); 11 thread_group_issue_count (uint32); 12 stats (Stats); 13
    thread_group_names (repeated string); 14 batch_size (int32); 16 crc_info (CRCInfo); 17
    cluster_offsets (repeated uint32); 18 allowed_shapes (repeated IOShapes)
IODescriptor: 1 type (dataType); 2 qscale (float); 3 qoffset (int32); 4 dims (repeated int32);
    5 layout (networkDescLayout)
IOBinding: 1 name (string); 2 io_initial (IODescriptor); 3 io_transformed (IODescriptor); 4
    transformseq (repeated transform); 5 is_partial_allowed (bool); 6 align (uint32)
DMABuffer: 1 size (uint32); 2 dir (direction)
OpNameKind: 1 name (string); 2 kind (string); 3 type (string); 4 memory (string); 5 shape
    (string); 6 operand (string); 7 output_size (uint64); 8 attributes (string); 9 operands
    (repeated string)
ThreadGroupOpNameKinds: 1 op_name_kinds (repeated OpNameKind)
CoreOpNameKinds: 1 tg_op_name_kinds (repeated ThreadGroupOpNameKinds)
Stats: 1 buff_num (uint32); 2 print_stats (bool); 3 stats_level (int32); 4 stats_no_host_sync
    (bool); 5 print_op_stats (bool); 6 op_stats_level (int32); 7 batch_size (int32); 8
    count_ddr_bw (bool); 9 utimer_freq_ms (int32); 10 pmu_events (repeated int32); 11
    ops_per_core (repeated int32); 12 core_op_name_kinds (repeated CoreOpNameKinds); 13
    pmu_stats_level (int32)
transform: 1 kind (transformKind); 2 type (dataType); 3 scale (float); 4 offset (int32); 5 dims
    (repeated int32); 6 layout (networkDescLayout); 7 shuffle (repeated int32); 8
    convert_to_d32 (ConvertToD32); 9 copy_dma_buffer (CopyDMABuffer)
transform.ConvertToD32: 1 padding_val (int32); 2 x_pad_begin (int32); 3 y_pad_begin (int32); 4
    x_pad_end (int32); 5 y_pad_end (int32); 6 d_pad_end (int32)
transform.CopyDMABuffer: 1 dir (direction); 2 offset (uint32); 3 buffer_num (uint32)
"""

ENUMS = """
dataType: FloatTy=0, Float16Ty=1, Int8QTy=2, UInt8QTy=3, Int16QTy=4, Int32QTy=5, Int32ITy=6,
    Int64ITy=7, Int8Ty=8
networkDescLayout: FlatNXYD=0, D32Untiled=1, D32UntiledWeights=2, D32ChannelMajor8x8=3,
    D32ChannelMajor1x64=4, D32SpatialMajor8x8=5, D32SpatialMajor1x64=6, D4ChannelMajor8x8=7,
    D4SpatialMajor8x8=8, PackedD4ChannelMajor8x8=9, PackedD4SpatialMajor8x8=10
transformKind: ConvertTransform=0, ConvertToD32Transform=1, ConvertFromD32Transform=2,
    DequantizeTransform=3, TransposeTransform=4, QuantizeTransform=5, CopyDMABufferTransform=6
direction: In=0, Out=1
CRCAlgorithm: CRC_BASIC_ALGORITHM=0
"""

Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "uint32": Field.TYPE_UINT32,
    "uint64": Field.TYPE_UINT64,
    "int32": Field.TYPE_INT32,
    "bool": Field.TYPE_BOOL,
    "float": Field.TYPE_FLOAT,
    "string": Field.TYPE_STRING,
}


def parse(content: bytes) -> message.Message:
    """A networkDescriptor; `DecodeError` where it is damaged."""
    found = new_descriptor()
    found.ParseFromString(content)
    return found


def new_descriptor() -> message.Message:
    """An empty networkDescriptor."""
    return _class()()


@cache
def _class() -> type[message.Message]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    name = "aicnwdesc.networkDescriptor"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="aicnwdesc.proto", package="aicnwdesc", syntax="proto3"
    )
    enums = _table(ENUMS)
    for name, body in enums.items():
        enum = file.enum_type.add(name=name)
        for key, number in re.findall(r"(\w+)=(\d+)", body):
            enum.value.add(name=key, number=int(number))
    for name, body in sorted(_table(MESSAGES).items(), key=lambda item: item[0].count(".")):
        _add_fields(_place(file, name), body, frozenset(enums))
    return file


def _table(text: str) -> dict[str, str]:
    rows = re.sub(r"\n    ", " ", text).strip().splitlines()
    return dict(row.split(": ", 1) for row in rows)


def _place(file: descriptor_pb2.FileDescriptorProto, name: str) -> descriptor_pb2.DescriptorProto:
    outer, _, inner = name.rpartition(".")
    if not outer:
        return file.message_type.add(name=inner)
    (holder,) = [message for message in file.message_type if message.name == outer]
    return holder.nested_type.add(name=inner)


def _add_fields(target: descriptor_pb2.DescriptorProto, body: str, enums: frozenset[str]) -> None:
    for number, name, repeated, kind in re.findall(r"(\d+) (\w+) \((repeated )?(\w+)\)", body):
        field = target.field.add(name=name, number=int(number))
        field.label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
            continue
        field.type = Field.TYPE_ENUM if kind in enums else Field.TYPE_MESSAGE
        nested = kind in ("ConvertToD32", "CopyDMABuffer")
        field.type_name = f".aicnwdesc.{'transform.' if nested else ''}{kind}"
