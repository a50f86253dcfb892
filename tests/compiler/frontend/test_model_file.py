from __future__ import annotations

import hashlib
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from compiler.errors import CompileError, ModelFileError
from compiler.frontend import bind, load_model
from compiler.ir.graph import value_of
from tests.compiler.frontend.files import DATA, random, saved, written

_PLAIN = (DATA / "plain_cnn.onnx").read_bytes()
_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _external(folder: Path, location: str, offset: str = "0", length: str = "48") -> Path:
    """A MatMul whose 4x3 float weights lie in `location`."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=value)
    return saved(folder, _matmul(tensor))


def _matmul(weights: TensorProto) -> ModelProto:
    rows, columns = weights.dims
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", columns])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@_ONE_FILE
@given(kept=st.integers(1, len(_PLAIN) - 1))
def test_every_truncation_is_refused_as_a_file(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(_PLAIN[:kept])
    with pytest.raises(ModelFileError, match="not a complete ONNX file"):
        load_model(path)


@_ONE_FILE
@given(content=st.binary(max_size=64))
def test_bytes_that_are_no_model_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.onnx"
    path.write_bytes(content)
    with pytest.raises(CompileError):
        load_model(path)


@_ONE_FILE
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(_PLAIN) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_a_damaged_file_binds_or_is_a_compile_error(
    changes: list[tuple[int, int]], tmp_path: Path
) -> None:
    content = bytearray(_PLAIN)
    for position, value in changes:
        content[position] = value
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    message = "bound"
    try:
        bind(load_model(path), batch_size=2)
    except CompileError as error:
        message = str(error)
    assert message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"hello, this is a text file\n", "not an ONNX file"),
        (b"PK\x03\x04" + bytes(200), "not an ONNX file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "not an ONNX file"),
    ],
)
def test_other_files_are_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=says):
        load_model(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"none\.onnx: no such file"):
        load_model(tmp_path / "none.onnx")
    with pytest.raises(ModelFileError, match="is a folder"):
        load_model(tmp_path)


def test_a_name_that_is_no_utf8_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "bytes.onnx"
    path.write_bytes(_PLAIN.replace(b"a_conv", b"a\xffconv"))
    with pytest.raises(ModelFileError, match="not UTF-8"):
        load_model(path)


def test_the_digest_is_that_of_the_file() -> None:
    path = DATA / "plain_cnn.onnx"
    assert load_model(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_covers_external_data(tmp_path: Path) -> None:
    for name in ("external_data.onnx", "external_data.bin"):
        shutil.copy(DATA / name, tmp_path / name)
    before = load_model(tmp_path / "external_data.onnx").sha256
    data = bytearray((tmp_path / "external_data.bin").read_bytes())
    data[100] ^= 1
    (tmp_path / "external_data.bin").write_bytes(data)
    assert before == load_model(DATA / "external_data.onnx").sha256
    assert before != load_model(tmp_path / "external_data.onnx").sha256


def test_missing_external_data_are_named(tmp_path: Path) -> None:
    shutil.copy(DATA / "external_data.onnx", tmp_path / "model.onnx")
    with pytest.raises(ModelFileError, match=r"'w1'.*'external_data\.bin' is missing"):
        load_model(tmp_path / "model.onnx")


def test_external_data_are_read_from_their_offset(tmp_path: Path) -> None:
    values = random((4, 3))
    (tmp_path / "w.bin").write_bytes(b"\xff" * 16 + values.tobytes() + b"\xff" * 8)
    graph = bind(load_model(_external(tmp_path, "w.bin", offset="16")), batch_size=1)
    np.testing.assert_array_equal(value_of(graph.constants["w"]), values)


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "sub/../../secret.bin", "/etc/hostname", "\\\\host\\share", "C:\\w.bin", ""],
)
def test_external_data_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    with pytest.raises(ModelFileError, match="outside the model's folder"):
        load_model(_external(folder, location))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelFileError, match="link to outside"):
        load_model(_external(folder, "w.bin"))


@pytest.mark.parametrize(
    ("offset", "length", "says"),
    [
        ("8", "48", "ends at byte 56 of w.bin, which has 48"),
        ("0", "44", "needs 48 bytes, w.bin holds 44"),
        ("-4", "48", "offset or length is '-4'"),
    ],
)
def test_external_data_of_the_wrong_extent_are_refused(
    offset: str, length: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(48))
    with pytest.raises(ModelFileError, match=says):
        load_model(_external(tmp_path, "w.bin", offset, length))


def test_big_weights_stay_in_the_file_and_have_their_values(tmp_path: Path) -> None:
    # Above 8 MiB a graph is taken apart; the second weight is small and stays in the message.
    values = random((1700, 1301))
    proto = _matmul(numpy_helper.from_array(values, "w"))
    proto.graph.node.append(helper.make_node("Add", ["y", "b"], ["z"]))
    proto.graph.initializer.append(numpy_helper.from_array(random((1301,), 1), "b"))
    proto.graph.output[0].name = "z"
    path = saved(tmp_path, proto)
    tracemalloc.start()
    try:
        model = load_model(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < values.nbytes / 4
    assert model.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    graph = bind(model, batch_size=3)
    np.testing.assert_array_equal(value_of(graph.constants["w"]), values)
    np.testing.assert_array_equal(value_of(graph.constants["b"]), random((1301,), 1))
    path.write_bytes(path.read_bytes()[: values.nbytes // 2])
    with pytest.raises(ModelFileError, match="changed while it was in use"):
        value_of(graph.constants["w"])


def test_a_tensor_that_holds_less_than_it_declares_is_refused(tmp_path: Path) -> None:
    proto = _matmul(numpy_helper.from_array(random((4, 3)), "w"))
    proto.graph.initializer[0].dims[1] = 5
    with pytest.raises(CompileError, match=r"'w' declares 80 bytes but holds 48"):
        load_model(saved(tmp_path, proto))


def test_an_element_type_that_no_device_form_has_is_refused(tmp_path: Path) -> None:
    body = "g (complex64[n,4] x) => (complex64[n,4] y) { y = Identity (x) }"
    with pytest.raises(CompileError, match="input 'x' has element type COMPLEX64"):
        load_model(written(tmp_path, body))
