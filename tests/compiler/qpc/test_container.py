from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import QpcError
from compiler.qpc import pack, unpack
from compiler.qpc.container import Segment, open_container, replacing, write_frame
from tests.compiler.qpc.samples import MINIMAL

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40
).filter(lambda name: len(name.encode()) < 200)
SEGMENTS = st.dictionaries(NAMES, st.binary(max_size=60), max_size=8)
TABLE_AT = 40


def unpacked_by_the_layout(content: bytes) -> dict[str, bytes]:
    """QAicQpc.h, field by field."""
    magic, major, minor, kind, size, base, count, table = struct.unpack_from("<IBBHQQQQ", content)
    assert (magic, major, minor, kind, base) == (0x00A1CD7C, 0, 1, 1, 0)
    assert size == len(content)
    found = {}
    for index in range(count):
        length, _, name_at, start = struct.unpack_from("<4Q", content, table + 32 * index)
        name = content[name_at : content.index(b"\0", name_at)].decode()
        assert name_at % 8 == 0
        assert start % 8 == 0
        found[name] = content[start : start + length]
    return found


@given(SEGMENTS)
def test_segments_lie_where_the_layout_says_and_come_back(segments: dict[str, bytes]) -> None:
    content = pack(segments)
    assert unpacked_by_the_layout(content) == segments
    assert unpack(content) == segments
    assert list(unpack(content)) == list(segments)
    assert pack(segments) == content


def test_constants_are_all_static() -> None:
    content = pack({"a": b"12", "constants.bin": b"345"})
    offsets = [struct.unpack_from("<Q", content, TABLE_AT + 32 * i + 8)[0] for i in range(2)]
    assert offsets == [0, 3]


def test_the_minimal_file_is_read_and_written_back_to_the_same_bytes() -> None:
    content = MINIMAL.read_bytes()
    assert pack(unpack(content)) == content


@given(st.integers(1, 2**63 - 1))
def test_pointers_may_be_addresses(base: int) -> None:
    content = bytearray(MINIMAL.read_bytes())
    struct.pack_into("<Q", content, 16, base)
    struct.pack_into("<Q", content, 32, base + TABLE_AT)
    for at in range(TABLE_AT, TABLE_AT + 4 * 32, 32):
        name, start = struct.unpack_from("<QQ", content, at + 16)
        struct.pack_into("<QQ", content, at + 16, name + base, start + base)
    assert unpack(bytes(content)) == unpack(MINIMAL.read_bytes())


@given(st.binary(max_size=300))
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(QpcError):
        unpack(content)


@given(st.data())
def test_a_cut_file_is_refused(data: st.DataObject) -> None:
    content = MINIMAL.read_bytes()
    with pytest.raises(QpcError):
        unpack(content[: data.draw(st.integers(0, len(content) - 1))])


@given(st.integers(0, 240 * 8 - 1))
def test_a_flipped_bit_of_the_head_is_refused_or_stays_inside(bit: int) -> None:
    content = bytearray(MINIMAL.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    try:
        found = unpack(bytes(content))
    except QpcError:
        return
    assert sum(map(len, found.values())) <= len(content)


@given(
    st.sampled_from(["<Q", "<I", "<H"]),
    st.integers(0, 232),
    st.sampled_from([0, 1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 7543, 7544, 7545]),
)
def test_a_wild_number_in_the_head_is_refused_or_stays_inside(
    kind: str, at: int, value: int
) -> None:
    content = bytearray(MINIMAL.read_bytes())
    struct.pack_into(kind, content, at, value % 2 ** (8 * struct.calcsize(kind)))
    try:
        found = unpack(bytes(content))
    except QpcError:
        return
    assert sum(map(len, found.values())) <= len(content)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, 0x00A1CD7D, "magic number"),
        (6, 0, "compression type is 0"),
        (24, 65, "65 segments"),
        (24, 2**63, "segments, at most 64"),
        (32, 7500, "segment table"),
        (TABLE_AT + 16, 7544, "name at 7544 lies outside"),
        (TABLE_AT + 24, 7000, "at 7000 to 10024 lies outside the 7544"),
        (TABLE_AT + 32 + 16, 168, "two segments are called"),
        (TABLE_AT + 32 + 24, 3000, "ends at 3264, 'networkdesc.bin' starts at 3000"),
        (TABLE_AT + 96 + 8, 4097, "has 4096 bytes, 4097 of them static"),
    ],
)
def test_the_reason_names_what_disagrees(at: int, value: int, said: str) -> None:
    content = bytearray(MINIMAL.read_bytes())
    kind = {0: "<I", 6: "<H"}.get(at, "<Q")
    struct.pack_into(kind, content, at, value)
    with pytest.raises(QpcError, match=said):
        unpack(bytes(content))


def test_a_name_that_does_not_end_is_refused() -> None:
    content = bytearray(pack({"a": b"\1" * 400}))
    struct.pack_into("<Q", content, TABLE_AT + 16, len(content) - 300)
    with pytest.raises(QpcError, match="does not end"):
        unpack(bytes(content))


def test_a_file_takes_its_place_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "programqpc.bin"
    with replacing(target) as file:
        write_frame(file, [Segment("a", [b"old"])])
    assert [path.name for path in target.parent.iterdir()] == ["programqpc.bin"]

    def breaks() -> Iterator[bytes]:
        yield b"new"
        raise KeyError("weights")

    with pytest.raises(KeyError), replacing(target) as file:
        write_frame(file, [Segment("a", breaks())])
    assert [path.name for path in target.parent.iterdir()] == ["programqpc.bin"]
    assert open_container(target).segment("a") == b"old"


def test_what_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(QpcError, match="cannot write"),
        replacing(tmp_path / "file" / "programqpc.bin"),
    ):
        pass


def test_ranges_are_checked_and_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(pack({"a": b"0123456789"}))
    container = open_container(path)
    assert container.part("a", 3, 4) == b"3456"
    for start, length in ((-1, 2), (8, 3), (2, -1), (11, 0)):
        with pytest.raises(QpcError, match="it has 10"):
            container.part("a", start, length)
    path.write_bytes(pack({"a": b"0123456789", "b": b""}))
    with pytest.raises(QpcError, match="has changed"):
        container.segment("a")


def test_a_folder_or_missing_file_is_refused(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "not a regular file"), (tmp_path / "no", "cannot read")):
        with pytest.raises(QpcError, match=said):
            open_container(path)
