"""ELF32 files that carry sections and no code. Source: System V ABI, "Object Files"."""

from __future__ import annotations

import struct

from compiler.errors import QpcError

HEXAGON = 164
"""e_machine of Hexagon (System V ABI, registry of machines)."""

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION = struct.Struct("<IIIIIIIIII")
_IDENT = b"\x7fELF\x01\x01\x01" + b"\0" * 9
"""32 bits, little endian, version 1."""
_EXECUTABLE = 2
_V68 = 0x68
"""e_flags: the processor's version (Hexagon ABI, EF_HEXAGON_MACH_V68)."""
_PROGBITS, _STRTAB = 1, 3
_NAMES = ".shstrtab"
_DATA_ALIGNMENT = 16
_MAX_SECTIONS = 1024
"""assumed: far more than any network program has."""


def build(name: str, data: bytes) -> bytes:
    """A Hexagon executable with one section `name` of `data`."""
    names = b"\0" + name.encode() + b"\0" + _NAMES.encode() + b"\0"
    data_at = _aligned(_HEADER.size)
    names_at = _aligned(data_at + len(data))
    table_at = names_at + len(names) + -(names_at + len(names)) % 8
    sections = [
        _SECTION.pack(*(0,) * 10),
        _SECTION.pack(1, _PROGBITS, 0, 0, data_at, len(data), 0, 0, _DATA_ALIGNMENT, 0),
        _SECTION.pack(len(name) + 2, _STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0),
    ]
    header = _HEADER.pack(
        _IDENT,
        _EXECUTABLE,
        HEXAGON,
        1,
        0,
        0,
        table_at,
        _V68,
        _HEADER.size,
        0,
        0,
        _SECTION.size,
        len(sections),
        len(sections) - 1,
    )
    body = (header.ljust(data_at, b"\0") + data).ljust(names_at, b"\0") + names
    return body.ljust(table_at, b"\0") + b"".join(sections)


def _aligned(at: int) -> int:
    return at + -at % _DATA_ALIGNMENT


def section(elf: bytes, *names: str) -> bytes:
    """The data of the first of `names` that `elf` has."""
    found = _sections(elf)
    for name in names:
        if name in found:
            return _span(elf, *found[name])
    raise QpcError(f"network.elf has no section {' or '.join(names)}, but {sorted(found)}")


def _sections(elf: bytes) -> dict[str, tuple[int, int]]:
    if len(elf) < _HEADER.size or elf[:7] != _IDENT[:7]:
        raise QpcError("network.elf is no 32-bit little-endian ELF file")
    fields = _HEADER.unpack_from(elf)
    table_at, entry_size, count, names_index = fields[6], *fields[11:]
    if entry_size != _SECTION.size or not names_index < count <= _MAX_SECTIONS:
        raise QpcError(
            f"network.elf has {count} section headers of {entry_size} bytes, names in "
            f"{names_index}; headers of {_SECTION.size} bytes are read, up to {_MAX_SECTIONS}"
        )
    table = _span(elf, table_at, count * _SECTION.size)
    headers = [header for header in _SECTION.iter_unpack(table) if header[1]]
    names_header = _SECTION.unpack_from(table, names_index * _SECTION.size)
    names = _span(elf, names_header[4], names_header[5])
    return {
        _name(names, header[0]): (header[4], header[5])
        for header in headers
        if header[1] in (_PROGBITS, _STRTAB)
    }


def _span(elf: bytes, start: int, size: int) -> bytes:
    if start + size > len(elf):
        raise QpcError(f"network.elf points at bytes {start} to {start + size} of {len(elf)}")
    return elf[start : start + size]


def _name(names: bytes, at: int) -> str:
    end = names.find(b"\0", at)
    if at >= len(names) or end < 0:
        raise QpcError(f"network.elf has a section name at {at} that does not end")
    return names[at:end].decode(errors="backslashreplace")
