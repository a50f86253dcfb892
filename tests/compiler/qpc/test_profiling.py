from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import qpc
from compiler.errors import QpcError
from compiler.qpc import payload, profiling
from tests.oracles.programs import ProgramBuilder

PROFILINGS = st.builds(
    qpc.Profiling,
    kinds=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    stats_level=st.integers(0, 99),
)


@given(PROFILINGS)
def test_it_comes_back(asked: qpc.Profiling) -> None:
    assert profiling.decode(profiling.encode(asked)) == asked


@given(PROFILINGS, st.data())
def test_a_flipped_bit_is_noticed(asked: qpc.Profiling, data: st.DataObject) -> None:
    content = bytearray(profiling.encode(asked))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(QpcError):
        profiling.decode(bytes(content))


@pytest.mark.parametrize("head", [None, [], {}, [[1], 1], [["latency"], "1"], [["a"], 1, 2]])
def test_another_layout_is_refused(head: object) -> None:
    with pytest.raises(QpcError, match="profiling segment is damaged"):
        profiling.decode(payload.seal(head))


def test_a_container_has_it_where_it_was_asked_for(tmp_path: Path) -> None:
    builder = ProgramBuilder()
    builder.read(1)
    program, asked = builder.build(), qpc.Profiling(kinds=("latency",), stats_level=70)
    plain = qpc.write(program, tmp_path / "plain")
    assert qpc.write(program, tmp_path / "none", profiling=qpc.Profiling()).read_bytes() == (
        plain.read_bytes()
    )
    assert qpc.read_profiling(plain) == qpc.Profiling()
    assert not qpc.read_profiling(plain)
    qpc.write(program, tmp_path / "told", profiling=asked)
    assert qpc.read_profiling(tmp_path / "told") == asked
