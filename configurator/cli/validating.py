"""The `validate` command: predictions held against measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from configurator.cli import arguments as args
from configurator.cli.progress import counting
from configurator.errors import UsageError

ERROR_TOO_LARGE = 4


def validate_command(
    data: Annotated[Path, typer.Option(metavar="FILE.csv", help="Measured configurations.")],
    models: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the ONNX graphs.")],
    max_median_error: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="End with 4 where the median error is above it."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw measured against predicted.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", parser=args.whole_number, help="Processes.")
    ] = 1,
    json_: args.Json = False,
) -> None:
    """Predict measured configurations, and show the error."""
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: must be 1 or more")
    if not models.is_dir():
        raise UsageError(f"--models {models}: is no folder")
    from configurator.validate.predict import predict_all
    from configurator.validate.report import compared, document, report_of, text
    from configurator.validate.rows import read_rows

    rows = read_rows(data)
    with counting(len(rows), "rows", quiet=json_) as on_done:
        report = report_of(predict_all(rows, models, jobs, on_done))
    if plot is not None:
        from configurator import plots

        points = [(x, y, p.row.family) for p, x, y in compared(report.predictions)]
        for path in plots.save_scatter(points, plot):
            print(path, file=sys.stderr if json_ else sys.stdout)
    print(json.dumps(document(report), indent=2, allow_nan=False) if json_ else text(report))
    median = report.overall.median_ape
    if max_median_error is not None and (median is None or median > max_median_error):
        raise typer.Exit(ERROR_TOO_LARGE)
