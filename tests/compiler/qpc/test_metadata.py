from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.program import Binding, Program
from compiler.qpc import elf, flatbuffer, metadata, networkdesc, unpack
from compiler.qpc.flatbuffer import Kind
from compiler.qpc.metadata import Metadata
from tests.compiler.qpc.samples import MINIMAL, equivalent_of_the_minimal_network, full_programs
from tests.oracles import aic_metadata
from tests.oracles.programs import ProgramBuilder

TERMINATOR = struct.pack("<HHI", 1, 0, 0)
_NUMBERS = {Kind.UINT8: 8, Kind.UINT16: 16, Kind.UINT32: 32, Kind.UINT64: 64}


def section_by_the_abi(content: bytes, wanted: str) -> bytes:
    """System V ABI: the section header table, and names in the section that e_shstrndx says."""
    assert content[:7] == b"\x7fELF\x01\x01\x01"
    kind, machine, version = struct.unpack_from("<HHI", content, 16)
    (table,) = struct.unpack_from("<I", content, 32)
    header_size, _, _, entry, count, names = struct.unpack_from("<6H", content, 40)
    assert (kind, machine, version, header_size, entry) == (2, 164, 1, 52, 40)
    assert table % 4 == 0
    headers = [struct.unpack_from("<10I", content, table + entry * i) for i in range(count)]
    assert headers[0] == (0,) * 10
    strings = content[headers[names][4] : headers[names][4] + headers[names][5]]
    for name_at, _, _, _, start, size, _, _, alignment, _ in headers[1:]:
        assert start % alignment == 0
        if strings[name_at : strings.index(b"\0", name_at)].decode() == wanted:
            return content[start : start + size]
    raise AssertionError(f"no section {wanted}")


def by_slots(table: Any) -> dict[str, Any]:
    """Our table under the names of the schema, which has its slots in the same order."""
    names = aic_metadata.slots(_schema_name(type(table)))
    return {
        name: _by_slots(getattr(table, field.name))
        for (name, _), field in zip(names, fields(table), strict=True)
    }


def _schema_name(kind: type[Any]) -> str:
    return {
        "SemaphoreOp": "AICMDSemaphoreOp",
        "DoorbellOp": "AICMDDoorbellOp",
        "DmaRequest": "AICMDDMARequest",
        "NspMulticastEntry": "AICMDNSPMulticastEntry",
        "NspMulticastTable": "AICMDNSPMulticastEntryTable",
        "HostMulticastEntry": "AICMDHostMulticastEntry",
        "HostMulticastTable": "AICMDHostMulticastEntryTable",
        "ThreadDescriptor": "AICMDThreadDescriptor",
        "ConstantMapping": "AICMDConstantMapping",
        "Metadata": "Metadata",
    }[kind.__name__]


def _by_slots(value: Any) -> Any:
    if is_dataclass(value):
        return by_slots(value)
    return [_by_slots(item) for item in value] if isinstance(value, tuple | bytes) else value


def tables(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any table of a class, by what its fields say of themselves."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(kind):
        spec = field.metadata["slot"]
        one: st.SearchStrategy[Any] = _values(spec.kind, spec.of)
        if spec.kind is Kind.UINT8 and spec.many:
            one = st.none() | st.binary(max_size=5)
        elif spec.many:
            one = st.none() | st.lists(one, max_size=3).map(tuple)
        elif spec.kind is Kind.TABLE:
            one = st.none() | one
        values[field.name] = one
    return st.builds(kind, **values)


def _values(kind: Kind, of: type[Any] | None) -> st.SearchStrategy[Any]:
    if of is not None:
        return tables(of)
    if kind is Kind.STRING:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    return st.integers(0, 2 ** _NUMBERS[kind] - 1)


@given(tables(Metadata))
def test_the_flatbuffers_package_reads_what_we_write(ours: Metadata) -> None:
    content = flatbuffer.build(ours)
    theirs = aic_metadata.parse(content)
    assert theirs == by_slots(ours)
    assert flatbuffer.parse(Metadata, content) == ours
    assert flatbuffer.build(ours) == content


def test_slots_have_the_types_of_the_schema() -> None:
    seen = set()
    waiting: list[type[Any]] = [Metadata]
    while waiting:
        kind = waiting.pop()
        seen.add(_schema_name(kind))
        for field, (_, said) in zip(
            fields(kind), aic_metadata.slots(_schema_name(kind)), strict=True
        ):
            spec = field.metadata["slot"]
            one = _schema_name(spec.of) if spec.of else spec.kind.name.lower()
            assert said == (f"[{one}]" if spec.many else one)
            waiting += [spec.of] if spec.of else []
    assert len(seen) == 10


def test_we_read_what_the_flatbuffers_package_writes() -> None:
    builder = flatbuffers.Builder(0)
    name = builder.CreateString("net")
    builder.StartObject(2)
    builder.PrependUint32Slot(0, 5, 0)
    builder.PrependUint32Slot(1, 6, 0)
    entry = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(entry)
    entries = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, entries, 0)
    host = builder.EndObject()
    state = builder.CreateByteVector(b"\1\2\3")
    builder.StartObject(34)
    builder.PrependUint16Slot(0, 1, 0)
    builder.PrependUOffsetTRelativeSlot(2, name, 0)
    builder.PrependUOffsetTRelativeSlot(5, state, 0)
    builder.PrependUOffsetTRelativeSlot(8, host, 0)
    builder.PrependUint64Slot(32, 2**64 - 1, 0)
    builder.Finish(builder.EndObject())
    found = flatbuffer.parse(Metadata, bytes(builder.Output()))
    assert found == Metadata(
        version_major=1,
        network_name="net",
        l2tcm_init_state=b"\1\2\3",
        host_multicast_table=metadata.HostMulticastTable(
            multicast_entries=(metadata.HostMulticastEntry(mask=5, size=6),)
        ),
        network_heap_size=2**64 - 1,
    )


@given(tables(Metadata), st.data())
def test_damage_is_refused_or_stays_inside(ours: Metadata, data: st.DataObject) -> None:
    content = bytearray(flatbuffer.build(ours))
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
    end = data.draw(st.integers(len(content) // 2, len(content)))
    try:
        flatbuffer.parse(Metadata, bytes(content[:end]))
    except QpcError:
        return


def test_tables_that_share_parts_do_not_multiply() -> None:
    """1000 requests that are one, of 1000 operations that are one."""
    builder = flatbuffers.Builder(0)
    builder.StartObject(6)
    shared = builder.EndObject()
    for slots in (10, 34):
        builder.StartVector(4, 1000, 4)
        for _ in range(1000):
            builder.PrependUOffsetTRelative(shared)
        vector = builder.EndVector()
        builder.StartObject(slots)
        builder.PrependUOffsetTRelativeSlot(0 if slots == 10 else 6, vector, 0)
        shared = builder.EndObject()
    builder.Finish(shared)
    with pytest.raises(QpcError, match="more than 100000 tables"):
        flatbuffer.parse(Metadata, bytes(builder.Output()))


@given(full_programs(), st.sampled_from([0, 128, 5 << 30]))
def test_a_program_s_metadata_is_what_the_driver_checks(
    program: Program, constants_bytes: int
) -> None:
    content = metadata.network_elf(program, constants_bytes)
    section = section_by_the_abi(content, "metadata_fb")
    assert section[:8] == TERMINATOR
    found = aic_metadata.parse(section[8:])
    assert found == by_slots(metadata.parse(content))
    cores = program.options.num_cores
    assert (found["versionMajor"], found["hwVersionMajor"], found["numNSPs"]) == (1, 2, cores)
    assert found["networkName"]
    assert found["requiredFields"] == []
    assert found["exitDoorbellOffset"] == 0x460
    assert len(found["nspMulticastTables"]) == cores
    _check_requests(found, networkdesc.describe(program))
    _check_multicast(found, cores)
    _check_constants(found, constants_bytes, (1 << cores) - 1)


def _check_requests(found: dict[str, Any], descriptor: networkdesc.NetworkDescriptor) -> None:
    """The life cycle's checks: one request a buffer, one wait each, doorbells apart, in DDR."""
    requests, buffers = found["dmaRequests"], descriptor.dma_buffers
    assert [request["num"] for request in requests] == list(range(len(buffers)))
    assert [request["size"] for request in requests] == [buffer.size for buffer in buffers]
    assert [request["inOut"] for request in requests] == [int(b.direction) for b in buffers]
    end = 0
    bells = {found["exitDoorbellOffset"]}
    for request in requests:
        assert request["portId"] == 100 + request["inOut"]
        assert request["devOffset"] >= end, "device buffers overlap"
        end = request["devOffset"] + request["size"]
        (bell,) = request["doorbellOps"]
        assert bell["offset"] % 4 == 0
        assert bell["offset"] not in bells
        assert bell["offset"] + 4 <= found["hostMulticastTable"]["multicastEntries"][0]["size"]
        bells.add(bell["offset"])
        waits = [op for op in request["semaphoreOps"] if op["preOrPost"]]
        assert len(waits) == 1
        assert all(op["semNum"] < 32 and op["semValue"] < 4096 for op in request["semaphoreOps"])
    assert end <= found["staticSharedDDRSize"]
    assert found["L2TCMInitSize"] == len(found["L2TCMInitState"]) > max(bells)
    for direction in (0, 1):
        _check_round(found, [r for r in requests if r["inOut"] == direction], direction)


def _check_round(found: dict[str, Any], requests: list[Any], semaphore: int) -> None:
    """Played through: after all transfers of a direction its semaphore is as it started."""
    cores, value = found["numNSPs"], found["semaphoreInitState"][semaphore]
    start = value
    value += cores if semaphore == 0 else -cores
    for request in requests:
        wait, *after = request["semaphoreOps"]
        assert (wait["semNum"], wait["semOp"], wait["semValue"]) == (semaphore, 4, value)
        for op in after:
            assert op["semOp"] == 1
            value = op["semValue"]
    assert not requests or value == start


def _check_multicast(found: dict[str, Any], cores: int) -> None:
    for core, table in enumerate(found["nspMulticastTables"]):
        for entry in table["multicastEntries"]:
            assert not entry["mask"] >> core & 1, "an NSP cannot send to itself"
            assert entry["mask"] | 1 << core == (1 << cores) - 1
            assert entry["baseAddrOffset"] % 4096 == 0


def _check_constants(found: dict[str, Any], size: int, mask: int) -> None:
    mappings = found["constantMappings"]
    assert found["staticConstantsSize"] == size
    assert sum(mapping["size"] for mapping in mappings) == size
    at = 0
    for mapping in mappings:
        assert (mapping["constantDataBaseOffset"], mapping["coreMask"]) == (at, mask)
        at += mapping["size"]


def test_more_buffers_than_doorbells_before_the_exit_doorbell() -> None:
    program = ProgramBuilder()
    program.read(1)
    many = tuple(Binding(f"i{n}", DType.UINT8, (1,), 1) for n in range(700))
    built = replace(program.build(), inputs=many)
    found = aic_metadata.parse(
        section_by_the_abi(metadata.network_elf(built, 0), "metadata_fb")[8:]
    )
    _check_requests(found, networkdesc.describe(built))


def test_our_files_equal_the_minimal_one_field_by_field() -> None:
    theirs = unpack(MINIMAL.read_bytes())
    program = equivalent_of_the_minimal_network()
    assert networkdesc.serialise(program) == theirs["networkdesc.bin"]
    ours, other = metadata.network_elf(program, 4096), theirs["network.elf"]
    assert metadata.parse(ours) == metadata.parse(other)
    sections = [section_by_the_abi(one, "metadata_fb") for one in (ours, other)]
    assert aic_metadata.parse(sections[0][8:]) == aic_metadata.parse(sections[1][8:])
    assert elf.build("metadata_fb", sections[1]) == other, "the ELF around equal metadata"


def test_metadata_may_lie_in_the_older_section_or_without_terminator() -> None:
    content = metadata.network_elf(equivalent_of_the_minimal_network(), 0)
    expected = metadata.parse(content)
    section = elf.section(content, "metadata_fb")
    assert metadata.parse(elf.build("metadata", section)) == expected
    assert metadata.parse(elf.build("metadata_fb", section[8:])) == expected
    with pytest.raises(QpcError, match="no section metadata_fb or metadata"):
        metadata.parse(elf.build("other", section))


@given(st.data())
def test_a_damaged_elf_is_refused_or_stays_inside(data: st.DataObject) -> None:
    content = bytearray(unpack(MINIMAL.read_bytes())["network.elf"])
    heads = [*range(64), *range(len(content) - 150, len(content))]
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.sampled_from(heads))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        metadata.parse(bytes(content[: data.draw(st.sampled_from([len(content), 51, 52, 3000]))]))
    except QpcError:
        return


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
def test_readelf_finds_the_section(tmp_path: Path) -> None:
    path = tmp_path / "network.elf"
    path.write_bytes(metadata.network_elf(equivalent_of_the_minimal_network(), 0))
    shown = subprocess.run(
        ["readelf", "-W", "-h", "-S", path], capture_output=True, text=True, check=True
    )
    assert "Hexagon" in shown.stdout or "QUALCOMM DSP6" in shown.stdout
    assert "metadata_fb" in shown.stdout
    assert "Warning" not in shown.stderr
