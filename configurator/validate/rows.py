"""Measured configurations: a CSV file in, rows out."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path

from compiler.options import CompileOptions, with_mos_in_reach
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
_APPLIED = (
    "-multicast-weights",
    "-aic-enable-depth-first",
    "-aic-depth-first-mem",
    "-size-split-granularity",
    "-vtcm-working-set-limit-ratio",
    "-allocator-dealloc-delay",
    "-sdp-cluster-sizes",
    "-mxfp6-matmul",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One configuration that was run on a card.

    `graph` is a model file's name without `.onnx`, `dims` its symbols' extents. `measured_ips` is
    in samples per second of the whole card, `latency_stat` says which latency `measured_ms` is;
    both are `None` where none was published. `remarks` say what is not run as it was measured.
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
    remarks: tuple[str, ...] = ()


def read_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """The rows of a file with at least the columns of the project's published runs.

    Raises `UsageError` naming the line and column where a value cannot be.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, restval="")
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UsageError(f"{path}: has no column {missing[0]}; add it, empty if unknown")
            return tuple(_row(path, number, row) for number, row in enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _row(path: Path, number: int, row: dict[str, str]) -> MeasuredRow:
    try:
        return _parsed(row)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path}, line {number}: {error}") from error


def _parsed(row: dict[str, str]) -> MeasuredRow:
    flags = dict(flag.partition("=")[::2] for flag in row["flags"].split())
    asked = _options(row, flags)
    options = with_mos_in_reach(asked)
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
        remarks=(*_lowered(row, asked, options), *_idle(flags)),
    )


def _options(row: dict[str, str], flags: dict[str, str]) -> CompileOptions:
    # Runs without -multicast-weights are as fast as their weights read once allow (14 cores, batch
    # 1: BERT-base at 495 a second, 49 if each core read them all): unset, the compiler chooses it.
    mos, value = _integers(row["mos"]), defaultdict(str, flags)
    return CompileOptions(
        num_cores=int(row["cores"]),
        batch_size=int(row["batch_size"]),
        ols=_integer(row["ols"]),
        mos=mos[0] if len(mos) == 1 else None,
        cluster_mos=mos if len(mos) > 1 else (),
        multicast_weights=True,
        depth_first=True if "-aic-enable-depth-first" in flags else None,
        depth_first_mem_mib=_integer(value["-aic-depth-first-mem"]),
        size_split_granularity_kib=_integer(value["-size-split-granularity"]),
        vtcm_working_set_limit_ratio=_number(value["-vtcm-working-set-limit-ratio"]),
        allocator_dealloc_delay=_integer(value["-allocator-dealloc-delay"]),
        sdp_cluster_sizes=_integers(value["-sdp-cluster-sizes"]),
        mxfp6_matmul="-mxfp6-matmul" in flags,
    )


def _lowered(row: dict[str, str], asked: CompileOptions, options: CompileOptions) -> list[str]:
    if options == asked:
        return []
    there = _listed(options.sdp_cluster_sizes or (options.num_cores,))
    mos = _listed(options.cluster_mos or (options.mos,))
    return [f"mos is {row['mos']}, cores are {there}: simulated with mos {mos}"]


def _idle(flags: dict[str, str]) -> list[str]:
    return [f"{name} is not simulated" for name in flags if name not in _APPLIED]


def _listed(numbers: Iterable[int | None]) -> str:
    return ",".join(map(str, numbers))


def _dims(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.split("=") for part in text.replace(";", " ").split()]
    return tuple(sorted((name, int(value)) for name, value in pairs))


def _integer(text: str) -> int | None:
    return None if text in _UNSET else int(float(text))


def _integers(text: str) -> tuple[int, ...]:
    return () if text in _UNSET else tuple(int(float(part)) for part in text.split(","))


def _number(text: str) -> float | None:
    number = float(text) if text else None
    if number is not None and not 0 < number < inf:
        raise ValueError(f"{text}: must be a number above 0")
    return number
