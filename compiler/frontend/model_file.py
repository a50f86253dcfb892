"""Reading a model file: the message in it, its digest, and what is no model at all."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from compiler.errors import ModelFileError
from compiler.frontend.external_data import Span, external_entries, external_path
from compiler.frontend.wire import CorruptError, Payload, TruncatedError, scan_model


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed file; `embedded` says where the bytes of initializers are that `proto` lacks."""

    path: Path
    proto: ModelProto
    sha256: str
    embedded: dict[str, Span]


def read_model_file(path: Path) -> ModelFile:
    """Parse `path`; big weights stay on disk.

    The digest is that of the file, or, when it names external data, that of the digests of the
    file and of each data file with its name. Raises `ModelFileError`.
    """
    try:
        digest, content, payloads = _scan(path)
    except TruncatedError as error:
        raise _incomplete(path) from error
    except CorruptError as error:
        raise ModelFileError(
            f"{path}: not an ONNX file; give the path of a .onnx model"
        ) from error
    except OSError as error:
        raise ModelFileError(f"{path}: {_reason(error)}; check the path") from error
    proto = _parse(path, content)
    return ModelFile(
        path, proto, _with_external(digest, proto, path), _spans(path, proto, payloads)
    )


def _scan(path: Path) -> tuple[str, bytes, tuple[Payload, ...]]:
    if path.exists() and not path.is_file() and not path.is_dir():
        # A pipe or a device may never end.
        raise ModelFileError(f"{path}: is not a regular file; copy the model into one")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if file.tell() == 0:
            raise ModelFileError(f"{path}: the file is empty, not an ONNX file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            content, payloads = scan_model(data)
    return digest, content, payloads


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, not an ONNX file"
    return f"cannot be read ({error.strerror})"


def _parse(path: Path, content: bytes) -> ModelProto:
    try:
        proto = ModelProto.FromString(content)
    except DecodeError as error:
        raise ModelFileError(f"{path}: not an ONNX file, or a damaged one") from error
    if proto.ir_version == 0 and not proto.HasField("graph"):
        raise ModelFileError(f"{path}: not an ONNX file; give the path of a .onnx model")
    # A valid file has both, and exporters write them last (onnx.proto, ModelProto).
    if not proto.HasField("graph") or (proto.ir_version >= 3 and not proto.opset_import):
        raise _incomplete(path)
    return proto


def _incomplete(path: Path) -> ModelFileError:
    return ModelFileError(f"{path}: not a complete ONNX file, its end is missing; copy it again")


def _spans(path: Path, proto: ModelProto, payloads: tuple[Payload, ...]) -> dict[str, Span]:
    tensors = proto.graph.initializer
    return {
        tensors[payload.index].name: Span(path, payload.offset_bytes, payload.length_bytes)
        for payload in payloads
    }


def _with_external(digest: str, proto: ModelProto, path: Path) -> str:
    files = {
        location: external_path(location, path.parent, tensor.name)
        for tensor in tensors_of(proto)
        if tensor.data_location == TensorProto.EXTERNAL
        for location in [external_entries(tensor).get("location", "")]
    }
    if not files:
        return digest
    total = hashlib.sha256(digest.encode())
    for location in sorted(files):
        total.update(f"\n{location}\n{_digest(files[location])}".encode())
    return total.hexdigest()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror})") from error


def tensors_of(proto: ModelProto) -> Iterator[TensorProto]:
    """All tensors that a model file may hold weights in."""
    yield from _tensors_of_graph(proto.graph)
    for function in proto.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors_of_graph(attribute.g)
