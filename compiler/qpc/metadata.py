"""The metadata that the card's firmware loads a program by, in a section of network.elf.

The tables have the names and slot order of the vendor's schema `AicMetadataFlat`. What they say:

- Input requests wait until every NSP has told by semaphore 0 that its input buffers are free. The
  last one sets it back to 0. Each rings its doorbell: a word in the L2TCM of every NSP.
- Output requests wait until every NSP has counted down semaphore 1. The last one sets it back to
  the number of NSPs. Their doorbells say that the output buffers are free again.
- NSPs reach one another's L2TCM, and their VTCM where the program sends tiles, by multicast.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from compiler.errors import QpcError
from compiler.program import Program, TaskKind
from compiler.qpc import elf, flatbuffer
from compiler.qpc.flatbuffer import Kind, slot
from compiler.qpc.networkdesc import (
    BUFFER_ALIGNMENT,
    HMX_THREADS,
    HVX_THREADS,
    Direction,
    DmaBuffer,
    host_buffers,
    network_name,
)
from compiler.target import device

SECTION = "metadata_fb"
_OLD_SECTION = "metadata"
_TERMINATOR = struct.pack("<HHI", 1, 0, 0)
"""Stands before the buffer: metadata version 1.0."""


class SemaphoreOpcode(IntEnum):
    """`AICMDSemaphoreOpcode`."""

    NOP = 0
    INIT = 1
    INC = 2
    DEC = 3
    WAIT_EQ = 4
    WAIT_GE = 5
    P = 6


class ThreadType(IntEnum):
    """`AICMDThreadType`."""

    HMX = 1
    HVX = 2


class AddressSpace(IntEnum):
    """`AICMDDMAEntryAddrSpace`: where the card's side of a transfer lies."""

    MULTICAST = 0
    DDR = 1


class MulticastSpace(IntEnum):
    """`AICMDMulticastEntryAddrSpace`."""

    L2TCM = 0
    VTCM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SemaphoreOp:
    """`AICMDSemaphoreOp`; `pre_or_post` is 1 for what happens before the copy."""

    sem_num: int = slot(Kind.UINT16)
    sem_value: int = slot(Kind.UINT16)
    sem_op: int = slot(Kind.UINT8)
    pre_or_post: int = slot(Kind.UINT8)
    in_sync_fence: int = slot(Kind.UINT8)
    out_sync_fence: int = slot(Kind.UINT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorbellOp:
    """`AICMDDoorbellOp`."""

    offset: int = slot(Kind.UINT64)
    data: int = slot(Kind.UINT32)
    mc_id: int = slot(Kind.UINT16)
    size: int = slot(Kind.UINT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaRequest:
    """`AICMDDMARequest`; `num` is the host buffer's place in the network descriptor."""

    semaphore_ops: tuple[SemaphoreOp, ...] = slot(Kind.TABLE, SemaphoreOp, many=True)
    doorbell_ops: tuple[DoorbellOp, ...] = slot(Kind.TABLE, DoorbellOp, many=True)
    host_offset: int = slot(Kind.UINT64)
    dev_offset: int = slot(Kind.UINT64)
    size: int = slot(Kind.UINT32)
    num: int = slot(Kind.UINT16)
    mc_id: int = slot(Kind.UINT16)
    dev_addr_space: int = slot(Kind.UINT8)
    in_out: int = slot(Kind.UINT8)
    port_id: int = slot(Kind.UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class NspMulticastEntry:
    """`AICMDNSPMulticastEntry`; bits of `mask` are the NSPs that receive."""

    base_addr_offset: int = slot(Kind.UINT64)
    mask: int = slot(Kind.UINT32)
    size: int = slot(Kind.UINT32)
    addr_space: int = slot(Kind.UINT8)
    dynamic: int = slot(Kind.UINT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class NspMulticastTable:
    """`AICMDNSPMulticastEntryTable`: what one NSP may send to."""

    multicast_entries: tuple[NspMulticastEntry, ...] = slot(
        Kind.TABLE, NspMulticastEntry, many=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMulticastEntry:
    """`AICMDHostMulticastEntry`."""

    mask: int = slot(Kind.UINT32)
    size: int = slot(Kind.UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMulticastTable:
    """`AICMDHostMulticastEntryTable`."""

    multicast_entries: tuple[HostMulticastEntry, ...] = slot(
        Kind.TABLE, HostMulticastEntry, many=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDescriptor:
    """`AICMDThreadDescriptor`; `entry_point` is an address of the NSP."""

    entry_point: int = slot(Kind.UINT64)
    type_mask: int = slot(Kind.UINT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantMapping:
    """`AICMDConstantMapping`: constants that the NSPs of a mask can read."""

    constant_data_base_offset: int = slot(Kind.UINT64)
    core_mask: int = slot(Kind.UINT32)
    size: int = slot(Kind.UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """`Metadata`, the root table."""

    version_major: int = slot(Kind.UINT16)
    version_minor: int = slot(Kind.UINT16)
    network_name: str = slot(Kind.STRING)
    required_fields: tuple[str, ...] = slot(Kind.STRING, many=True)
    semaphore_init_state: tuple[int, ...] = slot(Kind.UINT32, many=True)
    l2tcm_init_state: bytes = slot(Kind.UINT8, many=True)
    dma_requests: tuple[DmaRequest, ...] = slot(Kind.TABLE, DmaRequest, many=True)
    nsp_multicast_tables: tuple[NspMulticastTable, ...] = slot(
        Kind.TABLE, NspMulticastTable, many=True
    )
    host_multicast_table: HostMulticastTable | None = slot(Kind.TABLE, HostMulticastTable)
    thread_descriptors: tuple[ThreadDescriptor, ...] = slot(
        Kind.TABLE, ThreadDescriptor, many=True
    )
    constant_mappings: tuple[ConstantMapping, ...] = slot(Kind.TABLE, ConstantMapping, many=True)
    static_shared_ddr_size: int = slot(Kind.UINT64)
    dynamic_shared_ddr_size: int = slot(Kind.UINT64)
    static_constants_size: int = slot(Kind.UINT64)
    dynamic_constants_size: int = slot(Kind.UINT64)
    exit_doorbell_offset: int = slot(Kind.UINT64)
    l2_cached_ddr_size: int = slot(Kind.UINT32)
    l2tcm_init_size: int = slot(Kind.UINT32)
    exec_context_major_version: int = slot(Kind.UINT16)
    num_nsps: int = slot(Kind.UINT16)
    num_semaphores: int = slot(Kind.UINT16)
    hw_version_major: int = slot(Kind.UINT8)
    hw_version_minor: int = slot(Kind.UINT8)
    static_shared_ddr_ecc_enabled: int = slot(Kind.UINT8)
    dynamic_shared_ddr_ecc_enabled: int = slot(Kind.UINT8)
    static_constants_ecc_enabled: int = slot(Kind.UINT8)
    dynamic_constants_ecc_enabled: int = slot(Kind.UINT8)
    single_vtcm_page: int = slot(Kind.UINT8)
    has_hvx_fp: int = slot(Kind.UINT8)
    has_hmx_fp: int = slot(Kind.UINT8)
    vtcm_size: int = slot(Kind.UINT32)
    l2tcm_size: int = slot(Kind.UINT32)
    network_heap_size: int = slot(Kind.UINT64)
    raw_struct_version_length: int = slot(Kind.UINT64)


INPUTS_FREE, OUTPUTS_READY = 0, 1
"""The two semaphores."""
EXIT_DOORBELL_OFFSET = 0x460
"""Where the firmware's interface expects it (cc runtime, word 280 of L2TCM)."""
L2TCM_BYTES = 512 << 10
"""What the vendor's execution context recommends of the 1 MB of L2."""
_WORD_BYTES = 4
_L2TCM_INIT_STEP_BYTES = 2048
"""assumed: the initial L2TCM is written in pieces of this; 2048 bytes hold 511 doorbells."""
_HOST_IN_PORT, _HOST_OUT_PORT = 100, 101
_WORD_DOORBELL = 2
_EXEC_CONTEXT_MAJOR = 5
_HW_VERSION = (2, 0)
_ENTRY_POINT = 0x1000
"""assumed: first page of the program; the ELF has no code of its own."""
_MAPPING_BYTES = 2 << 30
"""A mapping's size is a 32-bit number: larger constants take several."""


def metadata_of(
    program: Program, constants_bytes: int, others: Sequence[Program] = ()
) -> Metadata:
    """The metadata of a program, and of other shapes of its network.

    Its constants.bin has `constants_bytes`.
    """
    _, buffers = host_buffers(program, others)
    ddr_bytes = max(one.memory.ddr_per_instance_bytes for one in (program, *others))
    cores, spec = program.options.num_cores, device(program.sku)
    doorbell_bytes = _doorbell_bytes(len(buffers))
    requests = _requests(buffers, cores)
    io_bytes = max((request.dev_offset + request.size for request in requests), default=0)
    init_bytes = -(-doorbell_bytes // _L2TCM_INIT_STEP_BYTES) * _L2TCM_INIT_STEP_BYTES
    return Metadata(
        version_major=1,
        network_name=network_name(program),
        required_fields=(),
        semaphore_init_state=(0, cores),
        l2tcm_init_state=bytes(init_bytes),
        dma_requests=requests,
        nsp_multicast_tables=_nsp_tables(program, doorbell_bytes),
        host_multicast_table=HostMulticastTable(
            multicast_entries=(HostMulticastEntry(mask=_mask(cores), size=doorbell_bytes),)
        ),
        thread_descriptors=_threads(),
        constant_mappings=_mappings(constants_bytes, cores),
        static_shared_ddr_size=max(io_bytes, ddr_bytes),
        static_constants_size=constants_bytes,
        exit_doorbell_offset=EXIT_DOORBELL_OFFSET,
        l2tcm_init_size=init_bytes,
        exec_context_major_version=_EXEC_CONTEXT_MAJOR,
        num_nsps=cores,
        num_semaphores=2,
        hw_version_major=_HW_VERSION[0],
        hw_version_minor=_HW_VERSION[1],
        single_vtcm_page=1,
        has_hvx_fp=1,
        has_hmx_fp=int(_does(program, TaskKind.MATMUL)),
        vtcm_size=spec.vtcm_bytes,
        l2tcm_size=L2TCM_BYTES,
    )


def _does(program: Program, kind: TaskKind) -> bool:
    return bool(np.any(program.tasks.kind == kind))


def _aligned(size: int) -> int:
    return size + -size % BUFFER_ALIGNMENT


def _mask(cores: int) -> int:
    return (1 << cores) - 1


def _doorbell_offset(index: int) -> int:
    """The word of a doorbell; the exit doorbell keeps its own."""
    offset = index * _WORD_BYTES
    return offset if offset < EXIT_DOORBELL_OFFSET else offset + _WORD_BYTES


def _doorbell_bytes(count: int) -> int:
    """L2TCM from its start up to the last doorbell's end."""
    return max(_doorbell_offset(max(count - 1, 0)), EXIT_DOORBELL_OFFSET) + _WORD_BYTES


def _requests(buffers: tuple[DmaBuffer, ...], cores: int) -> tuple[DmaRequest, ...]:
    inputs = sum(buffer.direction is Direction.IN for buffer in buffers)
    requests, dev_offset = [], 0
    for num, buffer in enumerate(buffers):
        last = num in (inputs - 1, len(buffers) - 1)
        requests.append(_request(buffer, num, dev_offset, _semaphores(buffer, cores, last)))
        dev_offset += _aligned(buffer.size)
    return tuple(requests)


def _request(
    buffer: DmaBuffer, num: int, dev_offset: int, semaphores: tuple[SemaphoreOp, ...]
) -> DmaRequest:
    outward = buffer.direction is Direction.OUT
    bell = DoorbellOp(offset=_doorbell_offset(num), data=1, size=_WORD_DOORBELL)
    return DmaRequest(
        semaphore_ops=semaphores,
        doorbell_ops=(bell,),
        dev_offset=dev_offset,
        size=buffer.size,
        num=num,
        dev_addr_space=AddressSpace.DDR,
        in_out=buffer.direction,
        port_id=_HOST_OUT_PORT if outward else _HOST_IN_PORT,
    )


def _semaphores(buffer: DmaBuffer, cores: int, last: bool) -> tuple[SemaphoreOp, ...]:
    """Wait until all NSPs are ready; the last transfer of its direction starts the next round."""
    if buffer.direction is Direction.IN:
        number, ready, start = INPUTS_FREE, cores, 0
    else:
        number, ready, start = OUTPUTS_READY, 0, cores
    wait = SemaphoreOp(
        sem_num=number, sem_value=ready, sem_op=SemaphoreOpcode.WAIT_EQ, pre_or_post=1
    )
    if not last:
        return (wait,)
    return (wait, SemaphoreOp(sem_num=number, sem_value=start, sem_op=SemaphoreOpcode.INIT))


def _nsp_tables(program: Program, doorbell_bytes: int) -> tuple[NspMulticastTable, ...]:
    cores = program.options.num_cores
    areas = [(MulticastSpace.L2TCM, doorbell_bytes)]
    if np.any(program.tasks.receivers):
        areas.append((MulticastSpace.VTCM, device(program.sku).vtcm_bytes))
    return tuple(_nsp_table(core, cores, areas) for core in range(cores))


def _nsp_table(
    core: int, cores: int, areas: list[tuple[MulticastSpace, int]]
) -> NspMulticastTable:
    others = _mask(cores) & ~(1 << core)
    entries = [
        NspMulticastEntry(mask=others, size=size, addr_space=space) for space, size in areas
    ]
    return NspMulticastTable(multicast_entries=tuple(entries) if others else ())


def _threads() -> tuple[ThreadDescriptor, ...]:
    masks = (ThreadType.HVX,) * HVX_THREADS + (ThreadType.HMX,) * HMX_THREADS
    return tuple(ThreadDescriptor(entry_point=_ENTRY_POINT, type_mask=mask) for mask in masks)


def _mappings(constants_bytes: int, cores: int) -> tuple[ConstantMapping, ...]:
    return tuple(
        ConstantMapping(
            constant_data_base_offset=start,
            core_mask=_mask(cores),
            size=min(_MAPPING_BYTES, constants_bytes - start),
        )
        for start in range(0, constants_bytes, _MAPPING_BYTES)
    )


def network_elf(program: Program, constants_bytes: int, others: Sequence[Program] = ()) -> bytes:
    """The network.elf of a program: its metadata, no code. Arguments as of `metadata_of`."""
    buffer = flatbuffer.build(metadata_of(program, constants_bytes, others))
    return elf.build(SECTION, _TERMINATOR + buffer)


def parse(network: bytes) -> Metadata:
    """The metadata in a network.elf; `QpcError` where there is none or it is damaged."""
    content = elf.section(network, SECTION, _OLD_SECTION)
    if content.startswith(_TERMINATOR):
        content = content[len(_TERMINATOR) :]
    found = flatbuffer.parse(Metadata, content)
    if found.version_major != 1:
        raise QpcError(f"metadata version is {found.version_major}, this reader knows 1")
    return found
