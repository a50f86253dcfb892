"""The `quantize` command, and what `compile` and `run` do with `--precision int8`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.options import Precision
from configurator.cli import arguments as args
from configurator.errors import UsageError
from configurator.int8 import Method, Settings

if TYPE_CHECKING:
    from compiler.program import Program

PrecisionOption = Annotated[
    Precision,
    typer.Option("--precision", help="int8 quantises by --calibration what int8 can do."),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="DIR", help="Samples of the inputs, for int8."),
]
ExcludeNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-node", metavar="NAME", help="A node that stays in fp16; repeat for more."
    ),
]
ExcludeOps = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-op", metavar="OP", help="An operator that stays in fp16; repeat for more."
    ),
]
PerChannel = Annotated[
    bool | None,
    typer.Option(
        "--per-channel/--per-tensor",
        help="Give each output channel of weights its scale.",
        show_default="where the opset allows",
    ),
]
MethodOption = Annotated[
    Method, typer.Option("--method", help="How ranges follow from the samples.")
]


Keeps = tuple[list[str] | None, list[str] | None]
"""Names of nodes and of operators that stay in fp16."""


def quantize_command(
    model: args.Model,
    calibration: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Samples of the inputs: .npy, .npz or .raw, one a file."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The quantised model.")],
    exclude_node: ExcludeNodes = None,
    exclude_op: ExcludeOps = None,
    per_channel: PerChannel = None,
    method: MethodOption = Method.MINMAX,
    symbol: args.Symbols = None,
    json_: args.Json = False,
) -> None:
    """Quantise a float model by samples of its inputs."""
    from configurator.quantize import quantize

    settings = Settings(
        method=method,
        per_channel=per_channel,
        exclude_nodes=tuple(exclude_node or ()),
        exclude_ops=tuple(exclude_op or ()),
    )
    made = quantize(model, calibration, out, settings, dict(args.parse_symbols(symbol)))
    if json_:
        document = {
            "path": str(made.path),
            "samples": made.samples,
            "products": made.products,
            "quantized_products": made.quantised,
        }
        print(json.dumps(document, indent=2))
    else:
        print(f"{made.path}: {made.quantised} of {made.products} products in int8")


@contextmanager
def in_precision(
    model: Path,
    precision: Precision,
    calibration: Path | None,
    keeps: Keeps,
    symbols: tuple[tuple[str, int], ...],
    cache: Path | None,
) -> Iterator[Path]:
    """The model to compile: the quantised one, kept in `cache`, where a calibration is given."""
    if calibration is None:
        if any(keeps):
            raise UsageError("--exclude-node and --exclude-op are for --calibration; give it too")
        yield model
        return
    if precision is not Precision.INT8:
        raise UsageError("--calibration is for --precision int8; give both or none")
    from configurator.quantize import quantized_once

    nodes, ops = (tuple(names or ()) for names in keeps)
    settings = Settings(exclude_nodes=nodes, exclude_ops=ops)
    with tempfile.TemporaryDirectory() as folder:
        yield quantized_once(model, calibration, cache or Path(folder), settings, dict(symbols))


def check_int8(program: Program, precision: Precision) -> None:
    """Raise `UsageError` where int8 was asked for and nothing runs in it."""
    from compiler.program import TaskKind

    if precision is Precision.INT8 and not (program.tasks.kind == TaskKind.MATMUL_INT8).any():
        raise UsageError(
            "--precision int8: nothing in the model is quantised; give samples of its inputs by "
            "--calibration DIR"
        )
