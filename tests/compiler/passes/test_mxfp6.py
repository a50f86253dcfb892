from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from compiler import qpc
from compiler.driver import OnnxCompiler
from compiler.execute.run import execute
from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Packed, TensorType, value_of
from compiler.ir.mxfp6 import Mxfp6Weights, packed_bytes, rounded, unpacked
from compiler.options import CompileOptions
from compiler.passes.mxfp6 import Mxfp6
from compiler.program import Program, TaskKind
from compiler.target import Sku, device
from tests.compiler.quantized import models

Floats = NDArray[np.float32]


def _by_specification(block: Floats, element: type, largest_exponent: int, most: float) -> Floats:
    """OCP MX 1.0, section 6.3, for one block, with another's six-bit floats."""
    largest = float(np.abs(block).max())
    if largest == 0.0:
        return block
    scale = 2.0 ** (np.floor(np.log2(largest)) - largest_exponent)
    inside = np.clip(block / scale, -most, most)
    result: Floats = inside.astype(element).astype(np.float32) * np.float32(scale)
    return result


@given(
    seed=st.integers(0, 999),
    rows=st.integers(1, 3),
    extent=st.sampled_from([1, 31, 32, 33, 64, 100, 2100]),
    magnitude=st.sampled_from([1e-3, 1.0, 300.0]),
)
def test_blocks_are_those_of_the_specification(
    seed: int, rows: int, extent: int, magnitude: float
) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal((rows, extent)) * magnitude).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = 0.0
    made = rounded(values, 1)
    for row in range(rows):
        for start in range(0, extent, 32):
            block = values[row, start : start + 32]
            wanted = _by_specification(block, ml_dtypes.float6_e2m3fn, 2, 7.5)
            np.testing.assert_array_equal(made[row, start : start + 32], wanted)


@given(seed=st.integers(0, 99), exponent=st.integers(-10, 10))
def test_six_bit_numbers_are_kept(seed: int, exponent: int) -> None:
    bits = np.arange(64, dtype=np.uint8)
    numbers = bits.view(ml_dtypes.float6_e2m3fn).astype(np.float32)
    block = np.random.default_rng(seed).choice(numbers, 32)
    block[0] = 7.5
    scaled = block * np.float32(2.0**exponent)
    np.testing.assert_array_equal(rounded(scaled[None], 1)[0], scaled)


def test_e2m3_errs_less_than_e3m2_on_normal_weights() -> None:
    weights = np.random.default_rng(0).standard_normal((200, 32)).astype(np.float32)
    errors = [
        np.mean((np.stack([_by_specification(row, *kind) for row in weights]) - weights) ** 2)
        for kind in (
            (ml_dtypes.float6_e2m3fn, 2, 7.5),
            (ml_dtypes.float6_e3m2fn, 4, 28.0),
        )
    ]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_lie_along_the_axis(axis: int) -> None:
    values = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    made, other = rounded(values, axis), rounded(values, 1 - axis)
    np.testing.assert_array_equal(made, rounded(values.T, 1 - axis).T)
    assert (made != other).any()


def test_a_constant_takes_six_and_a_quarter_bits(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx", np.random.default_rng(0), 64)
    graph = OnnxCompiler().graph(path, CompileOptions(num_cores=1, batch_size=2))
    packed = Mxfp6().run(graph).graph
    loads: list[object] = [constant.load for constant in packed.constants.values()]
    found = [load for load in loads if isinstance(load, Mxfp6Weights)]
    assert len(found) == 3
    assert all(isinstance(load, Packed) for load in found)
    # 64 x 20, 20 x 7 and 7 x 3, blocks along the first extent.
    assert sorted(load.stored_bytes for load in found) == [3 * 25, 7 * 25, 20 * 2 * 25]


def _wide(folder: Path, outputs: int = 4096) -> Path:
    """A layer whose weights do not stay in the VTCM of one core."""
    sketch = models.Sketch(np.random.default_rng(3), (4, 2048))
    value = sketch.op("MatMul", "x", sketch.weight(2048, outputs, scale=0.02))
    return sketch.save(folder / "wide.onnx", sketch.op("Relu", value))


def _read_bytes(program: Program) -> int:
    """Bytes of constants that come from DDR during an inference."""
    tasks = program.tasks
    reads = (tasks.kind == TaskKind.READ) & (tasks.w1 == 0)
    return int(tasks.w0[reads].sum())


@pytest.mark.parametrize("cores", [1, 3])
def test_traffic_shrinks_and_values_are_those_of_the_rounded_weights(
    tmp_path: Path, cores: int
) -> None:
    path, compiler = _wide(tmp_path, outputs=4096 * cores), OnnxCompiler()
    programs = []
    for packs in (False, True):
        options = CompileOptions(num_cores=cores, batch_size=4, mxfp6_matmul=packs)
        programs.append(compiler.compile(path, options, device(Sku.STD)))
    share = _read_bytes(programs[1]) / _read_bytes(programs[0])
    assert share == pytest.approx(6.25 / 16, rel=1e-3)
    graph = compiler.graph(path, CompileOptions(num_cores=cores, batch_size=4, mxfp6_matmul=True))
    x = models.samples(path, 1)[0]["x"]
    (weights,) = (c for c in graph.constants.values() if isinstance(_load(c), Mxfp6Weights))
    x16 = x.astype(np.float16).astype(np.float32)
    wanted = np.maximum(x16 @ value_of(weights), 0)
    made = execute(programs[1], graph, {"x": x})["y"]
    np.testing.assert_allclose(made, wanted, rtol=2e-3, atol=2e-3)


def _load(constant: Constant) -> object:
    return constant.load


@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(1, 40)),
    axis=st.integers(0, 2),
)
def test_packed_blocks_are_read_back(seed: int, shape: tuple[int, int, int], axis: int) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4)).astype(np.float32)
    weights = Mxfp6Weights(Constant(TensorType(DType.FLOAT32, shape), lambda: values), axis)
    data = b"".join(weights.packed())
    assert len(data) == packed_bytes(shape, axis) == weights.stored_bytes
    np.testing.assert_array_equal(unpacked(data, shape, axis), weights())


def test_elements_have_the_bits_of_e2m3() -> None:
    bits = np.arange(32, dtype=np.uint8)
    numbers = bits.view(ml_dtypes.float6_e2m3fn).astype(np.float32)
    constant = Constant(TensorType(DType.FLOAT32, (1, 32)), lambda: numbers[None])
    data = b"".join(Mxfp6Weights(constant, 1).packed())
    stream = np.unpackbits(np.frombuffer(data[1:], np.uint8), bitorder="little")
    codes = np.packbits(stream.reshape(32, 6), axis=-1, bitorder="little")[:, 0]
    assert data[0] == 127
    np.testing.assert_array_equal(codes, bits)


def test_a_qpc_holds_the_blocks(tmp_path: Path) -> None:
    path, compiler = _wide(tmp_path), OnnxCompiler()
    sizes = []
    for packs in (False, True):
        options = CompileOptions(num_cores=1, batch_size=4, mxfp6_matmul=packs)
        program, graph = (
            compiler.compile(path, options, device(Sku.STD)),
            compiler.graph(path, options),
        )
        folder = tmp_path / str(packs)
        sizes.append(qpc.write(program, folder, graph).stat().st_size)
        read = qpc.read_graph(folder)
        for name, constant in graph.constants.items():
            wanted = value_of(constant).astype(np.float16)
            np.testing.assert_array_equal(
                value_of(read.constants[name]).astype(np.float16), wanted
            )
    assert sizes[0] - sizes[1] == pytest.approx(2048 * 4096 * (16 - 6.25) / 8, rel=0.01)
