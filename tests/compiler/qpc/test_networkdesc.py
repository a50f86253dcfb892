from __future__ import annotations

import enum
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from google.protobuf import message
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import QpcError
from compiler.ir.dtypes import DType
from compiler.program import Binding, Program
from compiler.qpc import networkdesc, unpack
from compiler.qpc.networkdesc import NetworkDescriptor
from compiler.qpc.protobuf import Kind, decode, encode
from tests.compiler.qpc.samples import MINIMAL, equivalent_of_the_minimal_network, full_programs
from tests.oracles import aicnwdesc

_RENAMED = {"direction": "dir"}
_NUMBERS = {
    Kind.UINT32: st.integers(0, 2**32 - 1),
    Kind.UINT64: st.integers(0, 2**64 - 1),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.BOOL: st.booleans(),
    Kind.FLOAT: st.floats(width=32, allow_nan=False),
    Kind.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
}


def messages(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any message of a class, by what its fields say of themselves."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(kind):
        spec = field.metadata["proto"]
        one = _values(spec.kind, spec.of)
        if spec.many:
            values[field.name] = st.lists(one, max_size=3).map(tuple)
        else:
            values[field.name] = st.none() | one if spec.kind is Kind.MESSAGE else one
    return st.builds(kind, **values)


def _values(kind: Kind, of: type[Any] | None) -> st.SearchStrategy[Any]:
    if of is None:
        return _NUMBERS[kind]
    return messages(of) if kind is Kind.MESSAGE else st.sampled_from(of)


def assert_agree(ours: Any, theirs: Any) -> None:
    """Every field of our message equals the one of its name in google's."""
    for field in fields(ours):
        value = getattr(ours, field.name)
        name = _RENAMED.get(field.name, field.name)
        other = getattr(theirs, name)
        if value is None:
            assert not theirs.HasField(name)
        elif isinstance(value, tuple):
            assert len(value) == len(other)
            for one, another in zip(value, other, strict=True):
                assert_equal(one, another)
        else:
            assert_equal(value, other)


def assert_equal(one: Any, another: Any) -> None:
    if is_dataclass(one):
        assert_agree(one, another)
    elif isinstance(one, float):
        assert np.float32(one) == np.float32(another)
    else:
        assert one == another


@given(messages(NetworkDescriptor))
def test_google_reads_what_we_write_and_we_read_what_google_writes(
    ours: NetworkDescriptor,
) -> None:
    theirs = aicnwdesc.parse(encode(ours))
    assert_agree(ours, theirs)
    assert decode(NetworkDescriptor, theirs.SerializeToString()) == ours
    assert decode(NetworkDescriptor, encode(ours)) == ours


def test_our_field_numbers_are_those_of_the_schema() -> None:
    schema = aicnwdesc.new_descriptor().DESCRIPTOR
    seen = _compare(NetworkDescriptor, schema)
    assert seen == {
        "networkDescriptor", "IOBinding", "IODescriptor", "transform", "ConvertToD32",
        "CopyDMABuffer", "DMABuffer", "IOShapes", "tensorShape",
    }  # fmt: skip


def _compare(kind: type[Any], schema: Any) -> set[str]:
    seen = {schema.name}
    for field in fields(kind):
        spec = field.metadata["proto"]
        theirs = schema.fields_by_name[_RENAMED.get(field.name, field.name)]
        assert theirs.number == spec.number
        assert theirs.is_repeated == spec.many
        if spec.kind is Kind.MESSAGE:
            seen |= _compare(spec.of, theirs.message_type)
        elif spec.kind is Kind.ENUM:
            assert issubclass(spec.of, enum.IntEnum)
            assert [int(m) for m in spec.of] == [v.number for v in theirs.enum_type.values]
    return seen


def test_fields_that_we_do_not_know_are_skipped() -> None:
    theirs: Any = aicnwdesc.new_descriptor()
    theirs.network_name = "named"
    theirs.stats.op_stats_level = 3
    theirs.stats.core_op_name_kinds.add().tg_op_name_kinds.add().op_name_kinds.add(name="op")
    theirs.crc_info.entries.add(size=2**32 - 1)
    theirs.batch_size = -1
    ours = networkdesc.parse(theirs.SerializeToString())
    assert (ours.network_name, ours.batch_size) == ("named", -1)


def test_numbers_may_come_one_by_one_and_messages_in_parts() -> None:
    binding = bytes([4 << 3 | 2, 3, 1 << 3 | 2, 1, ord("a")])
    align = bytes([4 << 3 | 2, 2, 6 << 3, 7])
    initial = bytes([4 << 3 | 2, 8, 2 << 3 | 2, 2, 4 << 3, 5, 2 << 3 | 2, 2, 4 << 3, 6])
    content = binding + align + initial
    ours = networkdesc.parse(content)
    theirs: Any = aicnwdesc.parse(content)
    assert_agree(ours, theirs)
    assert ours.inputs[2].io_initial is not None
    assert ours.inputs[2].io_initial.dims == (5, 6)


@given(st.binary(max_size=40))
def test_other_bytes_are_read_as_google_reads_them_or_refused(content: bytes) -> None:
    try:
        ours = networkdesc.parse(content)
    except QpcError:
        return
    assert_agree(ours, aicnwdesc.parse(content))


@given(messages(NetworkDescriptor), st.data())
def test_damage_is_refused_or_read_as_google_reads_it(
    descriptor: NetworkDescriptor, data: st.DataObject
) -> None:
    content = bytearray(encode(descriptor))
    content += b"\x18\1"
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    try:
        ours = networkdesc.parse(bytes(content))
    except QpcError:
        return
    try:
        theirs = aicnwdesc.parse(bytes(content))
    except message.DecodeError:
        pytest.fail("google refuses what we read")
    if encode(ours):
        assert theirs.SerializeToString()


@given(full_programs())
def test_a_program_s_bindings_are_what_the_vendor_s_reader_needs(program: Program) -> None:
    theirs: Any = aicnwdesc.parse(networkdesc.serialise(program))
    assert (theirs.major_version, theirs.minor_version) == (9, 0)
    assert theirs.network_name
    assert theirs.num_cores == program.options.num_cores
    assert theirs.batch_size == program.options.batch_size
    _check_side(program.inputs, theirs.inputs, theirs.dma_buffers, direction=0)
    _check_side(program.outputs, theirs.outputs, theirs.dma_buffers, direction=1)
    directions = [buffer.dir for buffer in theirs.dma_buffers]
    assert directions == sorted(directions), "inputs come first"


def _check_side(bindings: tuple[Binding, ...], found: Any, buffers: Any, direction: int) -> None:
    assert len(found) == len(bindings)
    ends: dict[int, int] = {}
    for binding, shown in zip(bindings, found, strict=True):
        assert shown.name == binding.name
        assert tuple(shown.io_initial.dims) == binding.shape
        assert shown.io_initial == shown.io_transformed
        (step,) = shown.transformseq
        assert step.kind == 6, "the open runtime only copies"
        copy = step.copy_dma_buffer
        assert copy.dir == direction == buffers[copy.buffer_num].dir
        # The runtime's size: extents of zero do not count.
        size = int(np.prod([extent or 1 for extent in binding.shape])) * binding.dtype.size_bytes
        assert copy.offset >= ends.get(copy.buffer_num, 0), "bindings overlap"
        ends[copy.buffer_num] = copy.offset + size
        assert copy.offset + size <= buffers[copy.buffer_num].size


@given(full_programs(), st.lists(st.integers(1, 50), min_size=1, max_size=3))
def test_all_shapes_of_a_network_are_listed_and_fit_its_buffers(
    program: Program, batches: list[int]
) -> None:
    others = [
        replace(
            program,
            inputs=tuple(_scaled(binding, batch) for binding in program.inputs),
            outputs=tuple(_scaled(binding, batch) for binding in program.outputs),
        )
        for batch in batches
    ]
    theirs: Any = aicnwdesc.parse(networkdesc.serialise(program, others))
    assert len(theirs.allowed_shapes) == 1 + len(others)
    for one, listed in zip((program, *others), theirs.allowed_shapes, strict=True):
        bindings = (*one.inputs, *one.outputs)
        assert [tuple(shape.dims) for shape in listed.shapes] == [b.shape for b in bindings]
        _check_fit(one.inputs, theirs.inputs, theirs.dma_buffers)
        _check_fit(one.outputs, theirs.outputs, theirs.dma_buffers)


def _scaled(binding: Binding, batch: int) -> Binding:
    return replace(binding, shape=(*binding.shape, batch), size_bytes=binding.size_bytes * batch)


def _check_fit(bindings: tuple[Binding, ...], found: Any, buffers: Any) -> None:
    ends: dict[int, int] = {}
    for binding, shown in zip(bindings, found, strict=True):
        copy = shown.transformseq[0].copy_dma_buffer
        assert copy.offset >= ends.get(copy.buffer_num, 0)
        ends[copy.buffer_num] = copy.offset + binding.size_bytes
        assert ends[copy.buffer_num] <= buffers[copy.buffer_num].size


def test_shapes_of_different_networks_are_refused() -> None:
    program = equivalent_of_the_minimal_network()
    other = replace(program, inputs=())
    with pytest.raises(QpcError, match=r"binds \['input'\], another \[\]"):
        networkdesc.serialise(program, [other])


def test_what_no_buffer_can_hold_is_refused() -> None:
    program = equivalent_of_the_minimal_network()
    huge = Binding("x", DType.FLOAT32, (2**30,), 2**32)
    with pytest.raises(QpcError, match="'x' takes 4294967296 bytes"):
        networkdesc.serialise(replace(program, inputs=(huge,)))
    text = Binding("t", DType.STRING, (1,), 0)
    with pytest.raises(QpcError, match="'t' holds str"):
        networkdesc.serialise(replace(program, outputs=(text,)))


def test_types_without_a_code_keep_their_width() -> None:
    for dtype in DType:
        if dtype is not DType.STRING:
            code = networkdesc._DATA_TYPES[dtype]
            assert networkdesc.ELEMENT_BYTES[code] == dtype.size_bytes


def test_the_minimal_descriptor_is_read_as_google_reads_it_and_written_the_same() -> None:
    content = unpack(MINIMAL.read_bytes())["networkdesc.bin"]
    ours = networkdesc.parse(content)
    assert_agree(ours, aicnwdesc.parse(content))
    assert encode(ours) == content


def test_every_class_of_the_schema_is_reached() -> None:
    hints = get_type_hints(NetworkDescriptor)
    assert get_args(hints["inputs"])[0] is networkdesc.IoBinding
