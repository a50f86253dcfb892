"""Throughput by batch size and by cores x instances, as in the vendor's two figures.

Run as `python -m studies.shape`.

The figures give no model and no settings, only relative heights. ResNet-50 stands in, at its best
batch size up to 16 for each split, and at 2 cores x 7 instances for the batch sizes.
"""

from __future__ import annotations

import re
import sys

import pandas as pd

from compiler.errors import DoesNotFitError
from compiler.target import Sku
from studies.simulated import DATA, compiled, measure, options

MODEL = "resnet50"
BATCH_SIZES = (1, 2, 4, 8, 16)
SET_SIZE = 10


def main() -> int:
    """Print both comparisons and the rank correlation of the splits."""
    figures = pd.read_csv(DATA / "figures.csv")
    print(batch_sizes(figures[figures.figure == "batch_size"]).to_string(index=False))
    print()
    splits = cores_by_instances(figures[figures.figure == "cores_x_instances"])
    print(splits.to_string(index=False))
    ours, theirs = splits.throughput.rank(), splits.published.rank()
    print(f"\nrank correlation of the splits (Spearman): {ours.corr(theirs):.2f}")
    return 0


def batch_sizes(published: pd.DataFrame) -> pd.DataFrame:
    """Relative throughput and latency of each batch size on 2 cores x 7 instances."""
    runs = [
        measure(compiled(MODEL, Sku.STD, options(MODEL, 2, batch)), 7, SET_SIZE)
        for batch in BATCH_SIZES
    ]
    rates = pd.Series([run.inferences_per_s for run in runs])
    latencies = pd.Series([run.latency.mean_s for run in runs])
    return pd.DataFrame(
        {
            "batch_size": BATCH_SIZES,
            "inferences_per_s": rates.round(0),
            "throughput": (rates / rates.max()).round(3),
            "published": published.relative_throughput.to_numpy(),
            "latency": (latencies / latencies[0]).round(2),
            "published_latency": published.relative_latency.to_numpy(),
        }
    )


def cores_by_instances(published: pd.DataFrame) -> pd.DataFrame:
    """Relative throughput of each split at its best batch size."""
    splits = [
        tuple(int(n) for n in re.findall(r"\d+", point)) for point in published.point.tolist()
    ]
    best = [max(rate(cores, instances, b) for b in BATCH_SIZES) for cores, instances in splits]
    rates = pd.Series([each[0] for each in best])
    return pd.DataFrame(
        {
            "split": published.point.to_numpy(),
            "batch_size": [each[1] for each in best],
            "inferences_per_s": rates.round(0),
            "throughput": (rates / rates.max()).round(3),
            "published": published.relative_throughput.to_numpy(),
        }
    )


def rate(cores: int, instances: int, batch_size: int) -> tuple[float, int]:
    """Samples per second, with the batch size; 0 where the program does not fit."""
    try:
        program = compiled(MODEL, Sku.STD, options(MODEL, cores, batch_size))
    except DoesNotFitError:
        return 0.0, batch_size
    return measure(program, instances, SET_SIZE).inferences_per_s, batch_size


if __name__ == "__main__":
    sys.exit(main())
