"""Weights beside the model file: where they may lie, and which bytes they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnx import TensorProto

from compiler.errors import ModelFileError
from compiler.frontend.text import texts


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file."""

    path: Path
    offset_bytes: int
    length_bytes: int

    def read(self) -> bytes:
        """The bytes; raises `ModelFileError` when the file has become shorter or is gone."""
        return self.part(0, self.length_bytes)

    def part(self, start_bytes: int, length_bytes: int) -> bytes:
        """Bytes from `start_bytes` of the span, which must have them; raises as `read` does."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset_bytes + start_bytes)
                data = file.read(length_bytes)
        except OSError as error:
            raise ModelFileError(f"{self.path}: cannot be read ({error.strerror})") from error
        if len(data) != length_bytes:
            raise ModelFileError(f"{self.path}: changed while it was in use; start again")
        return data


def external_span(proto: TensorProto, folder: Path, needed_bytes: int) -> Span:
    """Which bytes of which file hold an external tensor.

    The location comes from the model file and is not trusted: it must name a file inside
    `folder`, also after symbolic links are followed. Raises `ModelFileError` before opening any.
    """
    entries = external_entries(proto)
    path = external_path(entries.get("location", ""), folder, proto.name)
    size_bytes = path.stat().st_size
    offset = _natural(entries.get("offset", "0"), proto.name)
    length = _natural(entries.get("length", str(needed_bytes)), proto.name)
    if offset + length > size_bytes:
        raise ModelFileError(
            f"tensor '{proto.name}': its data ends at byte {offset + length} of {path.name}, "
            f"which has {size_bytes}; the file is not complete"
        )
    return Span(path, offset, length)


def external_entries(proto: TensorProto) -> dict[str, str]:
    """What a tensor says of its external data, by key."""
    keys = texts(entry.key for entry in proto.external_data)
    return dict(zip(keys, texts(entry.value for entry in proto.external_data), strict=True))


def external_path(location: str, folder: Path, tensor: str) -> Path:
    """The file that a tensor's `location` names; see `external_span` for what is refused."""
    parts = PurePosixPath(location.replace("\\", "/")).parts
    windows = PureWindowsPath(location)
    absolute = location.startswith(("/", "\\")) or bool(windows.drive)
    if not parts or absolute or ".." in parts:
        raise ModelFileError(
            f"tensor '{tensor}': external data '{location}' lies outside the model's folder; "
            "put the file beside the model"
        )
    return _inside(folder, location, tensor)


def _inside(folder: Path, location: str, tensor: str) -> Path:
    root = folder.resolve()
    try:
        path = (root / location).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelFileError(
            f"tensor '{tensor}': external data file '{location}' is missing beside the model; "
            f"copy it to {folder}"
        ) from error
    if not path.is_relative_to(root):
        raise ModelFileError(
            f"tensor '{tensor}': external data '{location}' is a link to outside the model's "
            "folder; put the file itself beside the model"
        )
    if not path.is_file():
        raise ModelFileError(f"tensor '{tensor}': external data '{location}' is not a file")
    return path


_MOST_DIGITS = 20
"""Digits of the largest number of 64 bits."""


def _natural(text: str, tensor: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ModelFileError(
            f"tensor '{tensor}': external data offset or length is '{text[:_MOST_DIGITS]}', which "
            "is no number of bytes; export the model anew"
        )
    return int(text)
