"""One file out of a model and the files that hold its weights."""

from __future__ import annotations

import os
import tempfile
from math import prod
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, helper
from onnx.external_data_helper import uses_external_data

from compiler.errors import ModelFileError
from compiler.frontend.external_data import Span, external_span
from compiler.frontend.model_file import read_model_file, tensors_of

LARGEST_BYTES = (1 << 31) - 1
"""What one protobuf message may have (protobuf.dev, "Proto Limits": 2 GiB)."""


def squash(source: Path, target: Path) -> int:
    """Write `source` with all its weights inside as `target`, whole or not at all; its bytes.

    Raises `ModelFileError` for a file that is no model, for weights that are missing or outside
    the model's folder, and for a result that one protobuf message cannot hold.
    """
    read_model_file(source)  # what is wrong with the file is told as everywhere else
    model = onnx.load(source, load_external_data=False)
    outside = [tensor for tensor in tensors_of(model) if uses_external_data(tensor)]
    spans = [external_span(tensor, source.parent, _bytes_of(tensor)) for tensor in outside]
    _check_size(model, spans, target)
    for tensor, span in zip(outside, spans, strict=True):
        tensor.raw_data = span.read()
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    return _write(model, target)


def _bytes_of(tensor: TensorProto) -> int:
    return prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _check_size(model: ModelProto, spans: list[Span], target: Path) -> None:
    size = model.ByteSize() + sum(span.length_bytes for span in spans)
    if size > LARGEST_BYTES:
        raise ModelFileError(
            f"{target} would have {size} bytes, one ONNX file may have {LARGEST_BYTES}; keep the "
            "weights beside the model"
        )


def _write(model: ModelProto, target: Path) -> int:
    content = model.SerializeToString()
    try:
        handle, temporary = tempfile.mkstemp(prefix=".squash", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError as error:
        raise ModelFileError(f"cannot write {target}: {error.strerror or error}") from error
    return len(content)
