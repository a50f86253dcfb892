from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import qpc
from compiler.errors import QpcError
from compiler.qpc.inspect import inspect
from tests.compiler.passes.sketch import Sketch
from tests.compiler.qpc.samples import MINIMAL, assert_same_program
from tests.oracles.programs import ProgramBuilder


def test_the_minimal_file_is_described() -> None:
    found = inspect(MINIMAL)
    assert found.size_bytes == 7544
    assert [entry.size for entry in found.segments] == [3024, 160, 24, 4096]
    assert found.descriptor.inputs[0].name == "input"
    assert found.metadata.num_nsps == 2
    assert (found.static_constants_bytes, found.dynamic_constants_bytes) == (4096, 0)
    assert found.program is None
    assert found.graph is None
    assert found.cores == ()


def test_the_work_of_each_core_is_added_up(tmp_path: Path) -> None:
    builder = ProgramBuilder(num_cores=2)
    builder.read(100)
    builder.read(20, core=1)
    builder.read(3, core=1)
    builder.matmul(2, 3, 5)
    builder.matmul(2**20, 2**10, 2**10, core=1)
    builder.send(70, 1)
    program = builder.build()
    sketch = Sketch()
    sketch.node("Add", sketch.input(2, 30), sketch.random(2, 30))
    qpc.write(program, tmp_path, sketch.graph("add0"))
    found = inspect(tmp_path)
    first, second = found.cores
    assert (first.tasks, first.ddr_read_bytes, first.macs, first.sent_bytes) == (3, 100, 30, 70)
    assert (second.tasks, second.ddr_read_bytes, second.macs) == (3, 23, 2**40)
    assert found.program is not None
    assert_same_program(found.program, program)
    assert found.graph is not None
    assert found.static_constants_bytes == 120


@pytest.mark.parametrize("missing", ["network.elf", "networkdesc.bin", "constantsdesc.bin"])
def test_what_the_vendor_s_runtime_needs_must_be_there(tmp_path: Path, missing: str) -> None:
    segments = qpc.unpack(MINIMAL.read_bytes())
    del segments[missing]
    (tmp_path / qpc.FILE_NAME).write_bytes(qpc.pack(segments))
    with pytest.raises(QpcError, match=f"{qpc.FILE_NAME}: holds no {missing}"):
        inspect(tmp_path)


def test_constants_that_are_not_as_described_are_told(tmp_path: Path) -> None:
    segments = qpc.unpack(MINIMAL.read_bytes())
    segments["constantsdesc.bin"] = struct.pack("<QQ8x", 4000, 95)
    (tmp_path / qpc.FILE_NAME).write_bytes(qpc.pack(segments))
    with pytest.raises(QpcError, match=r"4000 static and 95 dynamic bytes.*has 4096"):
        inspect(tmp_path)


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_refused_or_described(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(MINIMAL.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 8 * 3448 - 1))
        content[bit // 8] ^= 1 << bit % 8
    bad = tmp_path / "bad.bin"
    bad.write_bytes(content)
    try:
        inspect(bad)
    except QpcError:
        return
