"""The Python calls: values against onnxruntime, rates against the runner's, and refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

import configurator
from compiler import qpc
from compiler.driver import OnnxCompiler
from compiler.errors import ExecutionError, QpcError
from compiler.options import CompileOptions
from compiler.target import Sku, device
from configurator import Session
from configurator.errors import UsageError
from configurator.qaic_runner.app import OK, invoke
from runtime_sim.errors import DeviceError
from tests.compiler.frontend import files

ROOT = Path(__file__).parents[2]

BODY = (
    "m (float[batch, 3, 8, 8] x) => (float[batch, 4, 6, 6] y, float[batch, 4] p) "
    "<float[4] b = {0.1, -0.2, 0.3, 0}> "
    "{ h = Conv(x, w, b) y = Relu(h) p = ReduceMean <axes = [2, 3], keepdims = 0> (y) }"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution with random weights, compiled, its model beside it."""
    out = tmp_path_factory.mktemp("session")
    proto = files.model_of(BODY)
    weights = numpy_helper.from_array(files.random((4, 3, 3, 3), 1) / 5, "w")
    proto.graph.initializer.append(weights)
    model = files.saved(out, proto)
    options = CompileOptions(num_cores=2, batch_size=2)
    compiler = OnnxCompiler()
    program = compiler.compile(model, options, device(Sku.STD))
    qpc.write(program, out, compiler.graph(model, options))
    return out


def test_values_are_onnxruntime_s_within_fp16(folder: Path) -> None:
    x = files.random((2, 3, 8, 8), 2)
    truth = files.run(folder / "model.onnx", {"x": x})
    with Session(folder / qpc.FILE_NAME) as session:
        found = session.run({"x": x})
    assert list(found) == ["y", "p"]
    for name, wanted in truth.items():
        assert found[name].dtype == wanted.dtype
        assert found[name].shape == wanted.shape
        # Inputs, weights and results have 11 bits; 27 products of magnitude about 0.2.
        assert np.abs(found[name] - wanted).max() <= 4 * 2**-11 * max(np.abs(wanted).max(), 1)
        assert np.abs(wanted).max() > 0.1


def test_shapes_are_told(folder: Path) -> None:
    session = Session(folder)
    assert session.model_input_shape_dict == {"x": ([2, 3, 8, 8], np.dtype(np.float32))}
    assert session.model_output_shape_dict == {
        "y": ([2, 4, 6, 6], np.dtype(np.float32)),
        "p": ([2, 4], np.dtype(np.float32)),
    }
    assert session.batch_size == 2


def test_a_benchmark_is_the_runner_s(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(str(folder), sku="std", num_activations=3, set_size=4)
    for arguments, line in (
        ({"num_inferences": 100}, ["-n", "100"]),
        ({"inf_time": 2}, ["--time", "2"]),
        ({}, []),
    ):
        completed, rate, seconds, batch = session.run_benchmark(**arguments)  # type: ignore[arg-type]
        assert rate == pytest.approx(completed * batch / seconds)
        assert invoke(["-t", str(folder), "-a", "3", "-S", "4", *line]) == OK
        printed = capsys.readouterr().out.splitlines()[-1].split()
        assert (int(printed[1]), int(printed[5])) == (completed, batch)
        assert float(printed[-1]) == pytest.approx(rate, rel=1e-2)


def test_setup_reads_once_and_reset_lets_go(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / qpc.FILE_NAME
    copied.write_bytes((folder / qpc.FILE_NAME).read_bytes())
    session = Session(copied)
    with session as entered:
        assert entered is session
        copied.unlink()
        assert session.run_benchmark(10).inf_completed == 10
    with pytest.raises(QpcError):
        session.setup()
    session.reset()


def test_what_cannot_be(folder: Path, tmp_path: Path) -> None:
    session = Session(folder)
    good = np.zeros((2, 3, 8, 8), np.float32)
    with pytest.raises(ExecutionError, match="input x is missing"):
        session.run({})
    with pytest.raises(ExecutionError, match="shape"):
        session.run({"x": good[:1]})
    with pytest.raises(UsageError, match="no input z; it has x"):
        session.run({"x": good, "z": good})
    with pytest.raises(UsageError, match="input x is <U1, the network has float32"):
        session.run({"x": np.full((2, 3, 8, 8), "a")})
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="inf_time"):
            session.run_benchmark(inf_time=seconds)
    with pytest.raises(UsageError, match="num_inferences is 0"):
        session.run_benchmark(0)
    with pytest.raises(UsageError, match="unknown card"):
        Session(folder, sku="none")
    with pytest.raises(UsageError, match="8 instances = 16, std has 14 NSPs"):
        Session(folder, num_activations=8).setup()
    with pytest.raises(UsageError, match="set size is 0"):
        Session(folder, set_size=0).run_benchmark()
    with pytest.raises(DeviceError, match="the program is for std"):
        Session(folder, sku=Sku.PRO).run_benchmark()
    with pytest.raises(QpcError, match="No such file"):
        Session(tmp_path / "gone").setup()


def test_the_package_is_imported_without_it() -> None:
    code = (
        "import sys, configurator\n"
        "assert not {'numpy', 'onnx', 'numba', 'configurator.session'} & set(sys.modules)\n"
        "from configurator import Session\n"
        "assert not {'onnx', 'numba'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = configurator.Nothing
