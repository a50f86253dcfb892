"""`python -m studies.calibration`: fit, cross-validate, write the timing file.

Takes the measured rows and graphs that come with the study, or others; about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from configurator.tables import grid
from configurator.validate.report import cells
from configurator.validate.rows import read_rows
from configurator.validate.statistics import errors_of
from runtime_sim.timing import CALIBRATED_FILE
from studies.calibration import baseline
from studies.calibration.fit import ITERATIONS, fit
from studies.calibration.folds import Fold, errors_without, families_of, of_family
from studies.calibration.observations import Errors, Observation, chosen, compiled, errors_at
from studies.calibration.parameters import timing_at, timing_of, values_of
from studies.calibration.record import rate_pairs, record

F64 = NDArray[np.float64]

HERE = Path(__file__).parent
ROWS = HERE.parent / "data" / "calibration.csv"
GRAPHS = HERE / "graphs.tar.xz"

_SHARED: dict[str, tuple[Observation, ...]] = {}
"""What forked processes simulate: programs are large, and pass to them with the fork alone."""


def main() -> int:
    """Run the study; exit 0."""
    asked = _parser().parse_args()
    with graphs(asked.models) as models:
        return _run(asked, models)


def _run(asked: argparse.Namespace, models: Path) -> int:
    everything = compiled(read_rows(asked.data), models)
    rows = chosen(everything)
    _SHARED.update(chosen=rows, everything=everything)
    with get_context("fork").Pool(asked.jobs) as pool:
        found = fit(rows, lambda points: pool.map(_at, points, chunksize=1), _told)
        families = families_of(everything)
        without = pool.imap(partial(_without, jacobians=found.jacobians), families)
        tested = [_fold(everything, *pair) for pair in zip(families, without, strict=True)]
    timing = timing_of(values_of(found.logs))
    document = record(timing, found, rows, tested, asked.data, models)
    print(_table(tested, _baseline(everything)))
    if asked.out is not None:
        asked.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        print(f"\nwrote {asked.out}")
    return 0


@contextmanager
def graphs(models: Path | None) -> Iterator[Path]:
    """The folder given, or one with the graphs that come with the study."""
    if models is not None:
        yield models
        return
    with TemporaryDirectory() as unpacked, tarfile.open(GRAPHS) as packed:
        packed.extractall(unpacked, filter="data")
        yield Path(unpacked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="studies.calibration", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROWS, help="measured rows (CSV)")
    parser.add_argument("--models", type=Path, help="folder of their graphs")
    parser.add_argument("--jobs", type=int, default=2, help="processes that simulate")
    parser.add_argument(
        "--out", type=Path, nargs="?", const=CALIBRATED_FILE, help="write the timing file"
    )
    return parser


def _at(logs: F64) -> Errors:
    return errors_at(_SHARED["chosen"], timing_at(logs))


def _told(iteration: int, loss: float) -> None:
    print(f"iteration {iteration + 1} of {ITERATIONS}: loss {loss:.1f}", file=sys.stderr)


def _without(family: str, jacobians: tuple[F64, ...]) -> Errors:
    return errors_without(family, _SHARED["everything"], _SHARED["chosen"], jacobians)


def _fold(everything: Sequence[Observation], family: str, errors: Errors) -> Fold:
    print(f"predicted {family} without it", file=sys.stderr)
    return Fold(family, of_family(everything, family), errors)


def _baseline(everything: Sequence[Observation]) -> dict[str, F64]:
    """Rates of the simple model for each family, fitted on the others."""
    networks = {id(one.program): baseline.network_of(one.program) for one in everything}
    found = {}
    for family in families_of(everything):
        others = [one for one in everything if one.row.family != family]
        values = baseline.fitted(others, [networks[id(one.program)] for one in others])
        own = [one for one in everything if one.row.family == family]
        rates = [baseline.rate_per_s(networks[id(one.program)], one, values) for one in own]
        found[family] = np.array(rates)
    return found


def _table(tested: Sequence[Fold], simple: dict[str, F64]) -> str:
    """Cross-validated errors beside those of the simple model."""
    notes = sorted({one.row.note for fold in tested for one in fold.observations})
    head = ["rows", "n", "median", "mean", "bias", "tau", "simple: median", "mean", "bias", "tau"]
    lines = [head]
    for note in (None, *notes):
        ours = errors_of(rate_pairs(tested, note))
        theirs = errors_of(_simple_pairs(tested, simple, note))
        lines.append([note or "all", str(ours.n), *cells(ours)[:4], *cells(theirs)[:4]])
    return grid(lines, left=(0,))


def _simple_pairs(
    tested: Sequence[Fold], simple: dict[str, F64], note: str | None
) -> list[tuple[float, float]]:
    return [
        (rate, one.row.measured_ips)
        for fold in tested
        for one, rate in zip(fold.observations, simple[fold.family].tolist(), strict=True)
        if one.row.measured_ips is not None and note in (None, one.row.note)
    ]


if __name__ == "__main__":
    sys.exit(main())
