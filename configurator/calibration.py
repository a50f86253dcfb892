"""Samples of a model's inputs, from files, for the ranges that quantisation needs.

A sample of a model with one input is a file `.npy`, `.raw` or `.npz`; of a model with several, a
`.npz` with an array for each input, or the files of the same place in the folders DIR/INPUT/ (a
`/` in the name of an input is `_` in the name of its folder). Files count in the order of their
names. A `.raw` file holds the elements alone, row-major and little-endian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from compiler.driver import ModelInput
from configurator.errors import UsageError

Array = NDArray[Any]

_SUFFIXES = (".npy", ".raw")


@dataclass(frozen=True, slots=True)
class Sample:
    """The files of one sample: one for each input, or one `.npz` for all."""

    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The samples of a folder; arrays are read when they are asked for.

    `symbols` gives the extents of symbolic dims, which files without a shape need.
    """

    inputs: tuple[ModelInput, ...]
    samples: tuple[Sample, ...]
    symbols: Mapping[str, int]

    def arrays(self) -> Iterator[dict[str, Array]]:
        """One sample after the other, by the names of the inputs.

        Raises `UsageError` where a file does not hold what its input takes.
        """
        for sample in self.samples:
            yield self._read(sample)

    def digest(self) -> str:
        """SHA-256 of the files' contents, in order."""
        found = hashlib.sha256()
        for sample in self.samples:
            for file in sample.files:
                found.update(hashlib.sha256(file.read_bytes()).digest())
        return found.hexdigest()

    def _read(self, sample: Sample) -> dict[str, Array]:
        first = sample.files[0]
        if first.suffix == ".npz":
            return _archive(first, self.inputs)
        pairs = zip(self.inputs, sample.files, strict=True)
        return {item.name: _array(file, item, self.symbols) for item, file in pairs}


def calibration_of(
    folder: Path, inputs: Sequence[ModelInput], symbols: Mapping[str, int]
) -> Calibration:
    """The samples of a folder, or those that a text file lists; `UsageError` if there are none.

    A line of a list names the files of one sample, one for each input, parted by commas or spaces.
    """
    if folder.is_file():
        return Calibration(tuple(inputs), _listed(folder, inputs), symbols)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no folder of calibration samples")
    samples = [Sample((file,)) for file in _files(folder, (".npz",))]
    if len(inputs) == 1:
        samples += [Sample((file,)) for file in _files(folder, _SUFFIXES)]
        samples.sort(key=lambda sample: sample.files[0].name)
    elif not samples:
        samples = _side_by_side(folder, inputs)
    if not samples:
        raise UsageError(
            f"{folder}: no samples found (*.npy, *.npz, *.raw; folders "
            f"{', '.join(_folder(item) for item in inputs)} for several inputs)"
        )
    return Calibration(tuple(inputs), tuple(samples), symbols)


def _listed(path: Path, inputs: Sequence[ModelInput]) -> tuple[Sample, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: no list of files: {error}") from error
    samples = []
    for number, line in enumerate(lines, start=1):
        named = line.replace(",", " ").split()
        if named and len(named) != len(inputs):
            raise UsageError(
                f"{path}: line {number} names {len(named)} files, the model has {len(inputs)} "
                "inputs"
            )
        files = tuple(path.parent / name for name in named)
        for file in files:
            if not file.is_file():
                raise UsageError(f"{path}: line {number}: {file} is no file")
        if files:
            samples.append(Sample(files))
    if not samples:
        raise UsageError(f"{path}: lists no files")
    return tuple(samples)


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(file for file in folder.glob("*") if file.suffix in suffixes and file.is_file())


def _folder(item: ModelInput) -> str:
    return item.name.replace("/", "_")


def _side_by_side(folder: Path, inputs: Sequence[ModelInput]) -> list[Sample]:
    columns = [_files(folder / _folder(item), _SUFFIXES) for item in inputs]
    counts = {item.name: len(column) for item, column in zip(inputs, columns, strict=True)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise UsageError(f"{folder}: as many files are needed for each input, found {listed}")
    return [Sample(files) for files in zip(*columns, strict=True)]


def _archive(file: Path, inputs: Sequence[ModelInput]) -> dict[str, Array]:
    held: dict[str, Array] = {}
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            names = [item.name for item in inputs if item.name in archive.files]
            held = {name: archive[name] for name in names}
    except (ValueError, BadZipFile, EOFError) as error:
        raise UsageError(f"{file}: no archive of arrays: {error}") from error
    for item in inputs:
        if item.name not in held:
            raise UsageError(f"{file}: holds no array '{item.name}', an input of the model")
        _check(file, held[item.name], item)
    return held


def _array(file: Path, item: ModelInput, symbols: Mapping[str, int]) -> Array:
    if file.suffix == ".raw":
        return _raw(file, item, symbols)
    try:
        array: Array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UsageError(f"{file}: no array: {error}") from error
    _check(file, array, item)
    return array


def _raw(file: Path, item: ModelInput, symbols: Mapping[str, int]) -> Array:
    """A file without a shape: at most one of the dims may be left to its size."""
    dims = [symbols.get(dim, -1) if isinstance(dim, str) else dim for dim in item.dims or ()]
    shape = [-1 if dim is None else dim for dim in dims]
    if item.dims is None or shape.count(-1) > 1:
        raise UsageError(
            f"{file}: a .raw file has no shape, and input '{item.name}' leaves "
            f"{_text(item)} open; give its symbols by --symbol, or use .npy"
        )
    dtype, data = np.dtype(item.dtype.value), file.read_bytes()
    unit = prod(dim for dim in shape if dim >= 0) * dtype.itemsize
    if unit == 0 or len(data) % unit or (-1 not in shape and len(data) != unit):
        raise UsageError(
            f"{file}: holds {len(data)} bytes, input '{item.name}' ({dtype.name} {_text(item)}) "
            f"takes {unit}"
        )
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def _check(file: Path, array: Array, item: ModelInput) -> None:
    if array.dtype.name != item.dtype.value:
        raise UsageError(
            f"{file}: holds {array.dtype.name}, input '{item.name}' takes {item.dtype.value}"
        )
    if item.dims is None:
        return
    fits = len(array.shape) == len(item.dims) and all(
        not isinstance(dim, int) or dim == extent
        for dim, extent in zip(item.dims, array.shape, strict=True)
    )
    if not fits:
        raise UsageError(
            f"{file}: has shape {'x'.join(map(str, array.shape)) or 'scalar'}, input "
            f"'{item.name}' takes {_text(item)}"
        )


def _text(item: ModelInput) -> str:
    if item.dims is None:
        return "a shape of any rank"
    return "x".join("?" if dim is None else str(dim) for dim in item.dims) or "scalar"
