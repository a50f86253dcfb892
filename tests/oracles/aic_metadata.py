"""The metadata by the `flatbuffers` package: an oracle that shares nothing with our reader.

The slots are the interface facts of the vendor's schema `AicMetadataFlat`. What the package does
not look at, but the vendor's verifier does, is checked on the way: alignment, bounds, vtables, the
NUL behind each text.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from flatbuffers import number_types
from flatbuffers.table import Table

TABLES = """
execContext: 0 execContextSize: uint16; 1 execContextFields: [execContextField]
execContextField: 0 variableNeeded: execContextVariables; 1 variableSize: uint16; 2
    execContextOffset: uint64; 3 isRequired: bool
AICMDSemaphoreOp: 0 semNum: uint16; 1 semValue: uint16; 2 semOp: uint8; 3 preOrPost: uint8; 4
    inSyncFence: uint8; 5 outSyncFence: uint8
AICMDDoorbellOp: 0 offset: uint64; 1 data: uint32; 2 mcId: uint16; 3 size: uint8
AICMDDMARequest: 0 semaphoreOps: [AICMDSemaphoreOp]; 1 doorbellOps: [AICMDDoorbellOp]; 2
    hostOffset: uint64; 3 devOffset: uint64; 4 size: uint32; 5 num: uint16; 6 mcId: uint16; 7
    devAddrSpace: uint8; 8 inOut: uint8; 9 portId: uint16
AICMDNSPMulticastEntry: 0 baseAddrOffset: uint64; 1 mask: uint32; 2 size: uint32; 3 addrSpace:
    uint8; 4 dynamic: uint8
AICMDNSPMulticastEntryTable: 0 multicastEntries: [AICMDNSPMulticastEntry]
AICMDHostMulticastEntry: 0 mask: uint32; 1 size: uint32
AICMDHostMulticastEntryTable: 0 multicastEntries: [AICMDHostMulticastEntry]
AICMDThreadDescriptor: 0 entryPoint: uint64; 1 typeMask: uint8
AICMDConstantMapping: 0 constantDataBaseOffset: uint64; 1 coreMask: uint32; 2 size: uint32
Metadata: 0 versionMajor: uint16; 1 versionMinor: uint16; 2 networkName: string; 3
    requiredFields: [string]; 4 semaphoreInitState: [uint32]; 5 L2TCMInitState: [uint8]; 6
    dmaRequests: [AICMDDMARequest]; 7 nspMulticastTables: [AICMDNSPMulticastEntryTable]; 8
    hostMulticastTable: AICMDHostMulticastEntryTable; 9 threadDescriptors:
    [AICMDThreadDescriptor]; 10 constantMappings: [AICMDConstantMapping]; 11
    staticSharedDDRSize: uint64; 12 dynamicSharedDDRSize: uint64; 13 staticConstantsSize:
    uint64; 14 dynamicConstantsSize: uint64; 15 exitDoorbellOffset: uint64; 16 l2CachedDDRSize:
    uint32; 17 L2TCMInitSize: uint32; 18 execContextMajorVersion: uint16; 19 numNSPs: uint16;
    20 numSemaphores: uint16; 21 hwVersionMajor: uint8; 22 hwVersionMinor: uint8; 23
    staticSharedDDRECCEnabled: uint8; 24 dynamicSharedDDRECCEnabled: uint8; 25
    staticConstantsECCEnabled: uint8; 26 dynamicConstantsECCEnabled: uint8; 27 singleVTCMPage:
    uint8; 28 hasHvxFP: uint8; 29 hasHmxFP: uint8; 30 VTCMSize: uint32; 31 L2TCMSize: uint32;
    32 networkHeapSize: uint64; 33 raw_struct_version_length: uint64
"""

_NUMBERS = {
    "uint8": number_types.Uint8Flags,
    "uint16": number_types.Uint16Flags,
    "uint32": number_types.Uint32Flags,
    "uint64": number_types.Uint64Flags,
}


def parse(content: bytes) -> dict[str, Any]:
    """The root table; absent numbers are 0, absent texts, vectors and tables `None`."""
    (root,) = struct.unpack_from("<I", content)
    return _table(content, root, "Metadata")


def slots(table: str) -> list[tuple[str, str]]:
    """Name and type of each slot, in order."""
    rows = re.sub(r"\n    ", " ", TABLES).strip().splitlines()
    bodies = dict(row.split(": ", 1) for row in rows)
    found = re.findall(r"(\d+) (\w+): (\[?\w+\]?)", bodies[table])
    assert [int(number) for number, _, _ in found] == list(range(len(found)))
    return [(name, kind) for _, name, kind in found]


def _table(content: bytes, at: int, name: str) -> dict[str, Any]:
    _check_table(content, at)
    table = Table(content, at)
    values = {}
    for index, (slot, kind) in enumerate(slots(name)):
        offset = table.Offset(4 + 2 * index)
        values[slot] = _value(content, table, at + offset, kind) if offset else _absent(kind)
    return values


def _absent(kind: str) -> int | None:
    return 0 if kind in _NUMBERS else None


def _value(content: bytes, table: Table, at: int, kind: str) -> Any:
    if kind in _NUMBERS:
        flags = _NUMBERS[kind]
        assert at % flags.bytewidth == 0, "a number is not aligned"
        return table.Get(flags, at)
    assert at % 4 == 0, "an offset is not aligned"
    if kind == "string":
        return _text(content, table, at)
    if kind.startswith("["):
        return _vector(content, table, at, kind[1:-1])
    return _table(content, table.Indirect(at), kind)


def _vector(content: bytes, table: Table, at: int, kind: str) -> list[Any]:
    start, count = table.Indirect(at) + 4, struct.unpack_from("<I", content, table.Indirect(at))[0]
    width = _NUMBERS[kind].bytewidth if kind in _NUMBERS else 4
    assert start % 4 == 0
    assert start % width == 0, "a vector is not aligned"
    assert start + count * width <= len(content)
    return [_value(content, table, start + index * width, kind) for index in range(count)]


def _text(content: bytes, table: Table, at: int) -> str:
    start = table.Indirect(at)
    (length,) = struct.unpack_from("<I", content, start)
    assert start % 4 == 0
    assert content[start + 4 + length] == 0, "a text does not end with NUL"
    return bytes(table.String(at)).decode()


def _check_table(content: bytes, at: int) -> None:
    assert at % 4 == 0, "a table is not aligned"
    vtable = at - struct.unpack_from("<i", content, at)[0]
    assert 0 <= vtable < len(content)
    assert vtable % 2 == 0, "a vtable is not aligned"
    size, table_size = struct.unpack_from("<HH", content, vtable)
    assert size % 2 == 0
    assert size >= 4
    assert vtable + size <= len(content)
    assert at + table_size <= len(content)
    offsets = struct.unpack_from(f"<{size // 2 - 2}H", content, vtable + 4)
    assert all(offset < table_size for offset in offsets)
