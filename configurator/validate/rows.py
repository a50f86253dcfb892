"""Measured configurations: a CSV file in, rows out."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from compiler.options import CompileOptions
from compiler.target import Sku
from configurator.errors import UsageError
from runtime_sim.options import RunOptions

_UNSET = ("", "default")
_COLUMNS = (
    "id",
    "family",
    "graph",
    "dims",
    "sku",
    "cores",
    "instances",
    "batch_size",
    "set_size",
    "ols",
    "mos",
    "flags",
    "throughput_ips",
    "latency_ms",
    "latency_stat",
    "power_w",
    "note",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One configuration that was run on a card.

    `graph` is a model file's name without `.onnx`, `dims` its symbols' extents. `measured_ips` is
    in samples per second of the whole card, `latency_stat` says which latency `measured_ms` is;
    both are `None` where none was published.
    """

    id: str
    family: str
    graph: str
    dims: tuple[tuple[str, int], ...]
    sku: Sku
    compile: CompileOptions
    run: RunOptions
    measured_ips: float | None
    measured_ms: float | None
    latency_stat: str
    power_w: float | None
    note: str


def read_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """The rows of a file with at least the columns of the project's published runs.

    Raises `UsageError` naming the line and column where a value cannot be.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UsageError(f"{path}: has no column {missing[0]}; add it, empty if unknown")
            return tuple(_row(path, number, row) for number, row in enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _row(path: Path, number: int, row: dict[str, str]) -> MeasuredRow:
    try:
        return _parsed(row)
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path}, line {number}: {error}") from error


def _parsed(row: dict[str, str]) -> MeasuredRow:
    # Runs without -multicast-weights are as fast as their weights read once allow (14 cores, batch
    # 1: BERT-base at 495 a second, 49 if each core read them all): unset, the compiler chooses it.
    flags = dict(flag.partition("=")[::2] for flag in row["flags"].split())
    memory = flags.get("-aic-depth-first-mem")
    options = CompileOptions(
        num_cores=int(row["cores"]),
        batch_size=int(row["batch_size"]),
        ols=_integer(row["ols"]),
        mos=_integer(row["mos"]),
        multicast_weights=True,
        depth_first=True if "-aic-enable-depth-first" in flags else None,
        depth_first_mem_mib=int(memory) if memory else None,
    )
    return MeasuredRow(
        id=row["id"],
        family=row["family"],
        graph=row["graph"],
        dims=_dims(row["dims"]),
        sku=Sku(row["sku"]),
        compile=options,
        run=RunOptions(instances=int(row["instances"]), set_size=int(row["set_size"] or 1)),
        measured_ips=_number(row["throughput_ips"]),
        measured_ms=_number(row["latency_ms"]),
        latency_stat=row["latency_stat"],
        power_w=_number(row["power_w"]),
        note=row["note"],
    )


def _dims(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.split("=") for part in text.replace(";", " ").split()]
    return tuple(sorted((name, int(value)) for name, value in pairs))


def _integer(text: str) -> int | None:
    return None if text in _UNSET else int(float(text))


def _number(text: str) -> float | None:
    return float(text) if text else None
