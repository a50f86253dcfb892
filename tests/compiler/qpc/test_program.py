from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import qpc
from compiler.errors import QpcError
from compiler.options import CompileOptions, Precision
from compiler.program import Layer, Program
from compiler.qpc import payload
from tests.compiler.qpc.samples import (
    JSON,
    assert_same_program,
    equivalent_of_the_minimal_network,
    forge,
    full_programs,
)
from tests.oracles.programs import programs

HEAD_AT = 16


def resealed(content: bytes) -> bytes:
    """With the checksum that damage would break, so that what lies behind it is tried."""
    return struct.pack("<I", zlib.crc32(content[4:])) + content[4:]


@given(full_programs())
def test_a_program_comes_back(program: Program) -> None:
    content = qpc.encode(program)
    assert_same_program(qpc.decode(content), program)
    assert qpc.encode(qpc.decode(content)) == content


@given(full_programs())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_comes_back_and_is_the_same_each_time(tmp_path: Path, program: Program) -> None:
    path = qpc.write(program, tmp_path / "a")
    assert path == tmp_path / "a" / qpc.FILE_NAME
    assert_same_program(qpc.read(tmp_path / "a"), program)
    assert_same_program(qpc.read(path), program)
    assert qpc.write(qpc.read(path), tmp_path / "b").read_bytes() == path.read_bytes()


@given(programs(max_tasks=4), st.data())
@settings(max_examples=200)
def test_a_flipped_bit_is_noticed(program: Program, data: st.DataObject) -> None:
    content = bytearray(qpc.encode(program))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(QpcError):
        qpc.decode(bytes(content))


@given(programs(max_tasks=4), st.data())
def test_a_cut_segment_is_noticed(program: Program, data: st.DataObject) -> None:
    content = qpc.encode(program)
    end = data.draw(st.integers(0, len(content) - 1))
    for cut in (content[:end], resealed(content[:end]) if end > HEAD_AT else b""):
        with pytest.raises(QpcError):
            qpc.decode(cut)


@given(programs(max_tasks=4), st.data())
@settings(max_examples=300)
def test_forged_bytes_are_refused_or_make_a_legal_program(
    program: Program, data: st.DataObject
) -> None:
    content = bytearray(qpc.encode(program))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(4, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    try:
        found = qpc.decode(resealed(bytes(content)))
    except QpcError:
        return
    assert qpc.decode(qpc.encode(found)) is not None


@given(programs(max_tasks=3), JSON, st.data())
@settings(max_examples=300)
def test_a_forged_head_is_refused_or_makes_a_legal_program(
    program: Program, value: Any, data: st.DataObject
) -> None:
    content = qpc.encode(program)
    head, body = payload.unseal(content, "program")
    forge(head, value, data)
    forged = payload.seal(head) + bytes(body)
    try:
        qpc.decode(resealed(forged))
    except QpcError:
        return


def test_a_head_that_nests_too_deep_is_refused() -> None:
    text = b"[" * 200_000
    content = struct.pack("<IQ", 1, len(text)) + text
    with pytest.raises(QpcError, match="damaged"):
        qpc.decode(resealed(b"\0\0\0\0" + content))


@dataclass(frozen=True)
class Longer:
    """A `Layer` of a later version."""

    name: str
    added: tuple[tuple[int, Precision | None], ...] = ()


def test_what_is_added_to_a_dataclass_is_written_too_and_changes_the_layout() -> None:
    value = Longer("a", ((1, Precision.INT8), (2, None)))
    row = json.loads(json.dumps(payload.plain(value)))
    assert payload.restored(Longer, row) == value
    assert payload.layout_of(Longer) != payload.layout_of(Layer)
    assert payload.layout_of(CompileOptions) == payload.layout_of(CompileOptions)


def test_every_field_of_a_program_is_written() -> None:
    from compiler.qpc import program as programs_

    written = {table for table, _, _ in programs_._columns()} | {*programs_._plain_fields()}
    assert written == {field.name for field in fields(Program)}


@given(programs(max_tasks=2))
@settings(max_examples=1)
def test_another_layout_is_told(program: Program) -> None:
    head, body = payload.unseal(qpc.encode(program), "program")
    head["layout"] = "0123"
    with pytest.raises(QpcError, match=r"layout 0123.*compile it again"):
        qpc.decode(resealed(payload.seal(head) + bytes(body)))


def test_a_container_of_others_is_told(tmp_path: Path) -> None:
    (tmp_path / qpc.FILE_NAME).write_bytes(qpc.pack({"network.elf": b"\x7fELF"}))
    with pytest.raises(QpcError, match="not compiled by this compiler"):
        qpc.read(tmp_path)
    with pytest.raises(QpcError, match="holds no aic_configurator_graph"):
        qpc.read_graph(tmp_path)
    with pytest.raises(QpcError, match="cannot read"):
        qpc.read(tmp_path / "missing")


def forged(program: Program, **changes: Any) -> bytes:
    head, body = payload.unseal(qpc.encode(program), "program")
    head["program"].update(changes)
    return resealed(payload.seal(head) + bytes(body))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("model_name", 5, "int found where str belongs"),
        ("double_buffered_inputs", 1, "int found where bool belongs"),
        ("memory", [1, 2, True], "bool found where int belongs"),
        ("memory", [1, 2], "a MemoryUse is no list of 3"),
        ("inputs", {"a": 1}, "dict found where a list belongs"),
        ("sku", "new", "'new' is not a valid Sku"),
    ],
)
def test_a_value_of_another_type_is_told(field: str, value: Any, said: str) -> None:
    with pytest.raises(QpcError, match=said):
        qpc.decode(forged(equivalent_of_the_minimal_network(), **{field: value}))


def test_columns_that_pass_the_end_are_told() -> None:
    head, body = payload.unseal(qpc.encode(equivalent_of_the_minimal_network()), "program")
    for length in (1, 2**40, -1):
        head["lengths"][-1] = length
        with pytest.raises(QpcError, match="passes the end"):
            qpc.decode(resealed(payload.seal(head) + bytes(body)))
