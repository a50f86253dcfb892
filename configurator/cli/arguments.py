"""What the commands' arguments mean: their types, help texts, and how their text is read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compiler.target import Sku
from configurator.errors import UsageError
from configurator.records import Workflow
from configurator.search import Sampler
from configurator.space import LARGEST_BATCH_SIZE, LARGEST_SET_SIZE

DEFAULT_STORAGE = "sqlite:///configurator.db"
# What qaic-runner takes when it is not told (`-S`).
DEFAULT_SET_SIZE = 10

# assumed: far above any useful list, far below what would fill the memory.
_MOST_VALUES = 4096


def whole_number(text: str | int) -> int:
    """`text` as an integer that programs and databases can hold; defaults pass as they are."""
    digits = str(text).strip()
    if not digits.removeprefix("-").isdecimal():
        raise typer.BadParameter(f"{digits} is not a whole number")
    # Eighteen digits always fit 64 bits.
    if len(digits) > 18:
        raise typer.BadParameter(f"{digits[:18]}... is too large")
    return int(digits)


def split_count(text: str | int) -> int | None:
    """A whole number, or `auto` as None: the compiler chooses."""
    return None if text == "auto" else whole_number(text)


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model file.")]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")]
Storage = Annotated[
    str,
    typer.Option(metavar="URL", help="Database of the studies, any SQLAlchemy URL."),
]
SkuOption = Annotated[Sku, typer.Option(help="The card, see `configurator devices`.")]
WorkflowOption = Annotated[Workflow, typer.Option(help="What to optimise.")]
SamplerOption = Annotated[Sampler, typer.Option(help="How candidates are chosen.")]
Symbols = Annotated[
    list[str] | None,
    typer.Option(
        "--symbol", metavar="NAME=INT", help="Value of a symbolic dimension; repeat for more."
    ),
]
BatchSymbol = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The symbolic dimension that is the batch, if not found."),
]
Cores = Annotated[
    int, typer.Option(metavar="N", parser=whole_number, help="NSPs of one instance.")
]
Instances = Annotated[
    int, typer.Option(metavar="N", parser=whole_number, help="Instances side by side.")
]
BatchSize = Annotated[
    int, typer.Option(metavar="N", parser=whole_number, help="Samples of one inference.")
]
BatchSizeOfCompile = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        metavar="N",
        parser=whole_number,
        help="Samples of one inference; needed where --specializations do not say.",
    ),
]
SetSize = Annotated[
    int,
    typer.Option(
        metavar="N",
        parser=whole_number,
        help="Inferences that each instance has outstanding.",
    ),
]
Ols = Annotated[
    int | None,
    typer.Option(
        metavar="N|auto",
        parser=split_count,
        help="Overlap split: into how many more pieces each operation is cut.",
        show_default="auto",
    ),
]
Mos = Annotated[
    int | None,
    typer.Option(
        metavar="N|auto",
        parser=split_count,
        help="Over how many cores an operation's output channels are split.",
        show_default="auto",
    ),
]
Multicast = Annotated[
    bool, typer.Option(help="Read weights once per instance and send them to its other cores.")
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        metavar="NAME=1x3x640x640",
        help="Shape of an input for one sample, where its dims have no names; repeat for more.",
    ),
]
DepthFirst = Annotated[
    bool | None,
    typer.Option(
        "--depth-first/--no-depth-first",
        help="Take parts of the batch deep into the model.",
        show_default="auto",
    ),
]
DepthFirstMem = Annotated[
    int | None,
    typer.Option(
        metavar="MIB",
        parser=whole_number,
        help="On-chip memory that depth-first may fill, 8 to 32.",
        show_default="auto",
    ),
]
SizeSplit = Annotated[
    int | None,
    typer.Option(
        "--size-split-granularity",
        metavar="KIB",
        parser=whole_number,
        help="Largest tile of what does not fit, 512 to 2048.",
        show_default="auto",
    ),
]
VtcmRatio = Annotated[
    float | None,
    typer.Option(
        "--vtcm-working-set-limit-ratio",
        metavar="SHARE",
        help="Share of VTCM that one operation may use, up to 1.",
        show_default="auto",
    ),
]
DeallocDelay = Annotated[
    int | None,
    typer.Option(
        "--allocator-dealloc-delay",
        metavar="N",
        parser=whole_number,
        help="Operations for which a buffer stays reserved after its last use, 0 to 10.",
        show_default="auto",
    ),
]
CombineInputs = Annotated[
    bool | None, typer.Option(help="Move all inputs in one transfer.", show_default="auto")
]
CombineOutputs = Annotated[
    bool | None, typer.Option(help="Move all outputs in one transfer.", show_default="auto")
]
SdpClusters = Annotated[
    str | None,
    typer.Option(
        "--sdp-cluster-sizes",
        metavar="N,N",
        help="Cores in clusters that form a pipeline, like 7,7.",
        show_default="off",
    ),
]
Mxfp6 = Annotated[
    bool, typer.Option("--mxfp6-matmul", help="Keep weights of products in 6-bit blocks in DDR.")
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Compiled programs. Default: aic-configurator in the user's cache."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


OlsOfStudy = Annotated[
    int | None,
    typer.Option("--ols", metavar="N|auto", parser=split_count, help="As for `compile`."),
]
MosOfStudy = Annotated[
    int | None,
    typer.Option("--mos", metavar="N|auto", parser=split_count, help="As for `compile`."),
]
CoresList = Annotated[
    str | None, typer.Option("--cores", metavar="LIST", help="Like 4 or 1-4,8. Default: all.")
]
InstancesList = Annotated[
    str | None, typer.Option("--instances", metavar="LIST", help="Like 7 or 1-7. Default: all.")
]
BatchSizeList = Annotated[
    str | None,
    typer.Option(
        "--batch-size",
        metavar="LIST",
        help="Like 8 or 1,2,4. Default: powers of two; 1 for --workflow latency.",
    ),
]
MaxBatchSize = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=whole_number,
        help="The powers of two up to N, in place of --batch-size.",
        show_default=str(LARGEST_BATCH_SIZE),
    ),
]
SetSizeList = Annotated[
    str | None,
    typer.Option(
        "--set-size",
        metavar="LIST",
        help=f"Like 10 or 1-4. Default: 1-{LARGEST_SET_SIZE}; 1 for --workflow latency.",
    ),
]


def batch_sizes(listed: str | None, largest: int | None) -> tuple[int, ...] | None:
    """What `--batch-size` lists, or the powers of two up to `--max-batch-size`."""
    if largest is None:
        return parse_values("--batch-size", listed)
    if listed is not None:
        raise UsageError("--batch-size and --max-batch-size exclude each other; give one")
    if largest < 1:
        raise UsageError(f"--max-batch-size {largest}: must be 1 or more")
    return tuple(1 << power for power in range(largest.bit_length()))


def parse_symbols(texts: list[str] | None) -> tuple[tuple[str, int], ...]:
    """`NAME=INT` texts as pairs sorted by name."""
    pairs = [_symbol(text) for text in texts or ()]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--symbol {name} is given {names.count(name)} times; give it once")
    return tuple(sorted(pairs))


def _symbol(text: str) -> tuple[str, int]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value.isdecimal():
        raise UsageError(f"--symbol {text}: must be NAME=INT, like seq_len=128")
    return name, whole_number(value)


def parse_input_shapes(texts: list[str] | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """`NAME=1x3x640x640` texts as pairs sorted by name; `NAME=scalar` has no dims."""
    pairs = [_input_shape(text) for text in texts or ()]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--input-shape {name} is given {names.count(name)} times")
    return tuple(sorted(pairs))


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, dims = text.rpartition("=")
    extents = [] if dims == "scalar" else dims.split("x")
    if not equals or not name or not all(extent.isdecimal() for extent in extents):
        raise UsageError(f"--input-shape {text}: must be NAME=DIMS, like images=1x3x640x640")
    return name, tuple(whole_number(extent) for extent in extents)


def parse_sizes(option: str, text: str | None) -> tuple[int, ...]:
    """`7,7` as (7, 7), in the order given."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option} {text}: must be whole numbers, like 7,7")
    return tuple(whole_number(part) for part in parts)


def parse_values(option: str, text: str | None) -> tuple[int, ...] | None:
    """`1-4,8` as (1, 2, 3, 4, 8), sorted and without repeats; None for None."""
    if text is None:
        return None
    values: set[int] = set()
    for part in text.split(","):
        first, last = _range(option, part.strip())
        if last - first >= _MOST_VALUES:
            raise UsageError(
                f"{option} {part}: more than {_MOST_VALUES} values; shorten the range"
            )
        values.update(range(first, last + 1))
    return tuple(sorted(values))


def _range(option: str, part: str) -> tuple[int, int]:
    first, dash, last = part.partition("-")
    ends = (first.strip(), last.strip()) if dash else (part, part)
    if not all(end.isdecimal() and len(end) <= 18 for end in ends):
        raise UsageError(f"{option} {part or 'without a value'}: must be like 4, 1-4 or 1-4,8,12")
    low, high = (int(end) for end in ends)
    if low < 1:
        raise UsageError(f"{option} {part}: values start at 1")
    if high < low:
        raise UsageError(f"{option} {part}: the range ends before it begins; write {high}-{low}")
    return low, high


def cache_directory(given: Path | None) -> Path | None:
    """Where programs are cached; None, with a note, where the default place cannot be written."""
    if given is not None:
        return given
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "aic-configurator"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        print(f"note: programs are not cached: {error}; see --cache-dir", file=sys.stderr)
        return None
    return folder
