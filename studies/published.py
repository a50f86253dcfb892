"""How far predictions are from published runs of real cards: `python -m studies.published`."""

from __future__ import annotations

import sys

import pandas as pd

from compiler.target import Sku
from studies.simulated import DATA, compiled, measure, options


def main() -> int:
    """Print a row for each published configuration and the errors of each model."""
    table = predictions(pd.read_csv(DATA / "tutorials.csv"))
    columns = [
        "model",
        "sku",
        "cores",
        "instances",
        "batch_size",
        "set_size",
        "ols",
        "mos",
        "inferences_per_s",
        "predicted_per_s",
        "ratio",
    ]
    print(table[columns].to_string(index=False, float_format=lambda value: f"{value:.2f}"))
    print()
    print(errors(table).to_string(float_format=lambda value: f"{value:.1%}"))
    return 0


def predictions(published: pd.DataFrame) -> pd.DataFrame:
    """The published rows with what we predict for each, in samples per second."""
    predicted = [
        predict(
            str(row.model),
            Sku(str(row.sku)),
            int(str(row.cores)),
            int(str(row.instances)),
            int(str(row.batch_size)),
            int(str(row.set_size)),
            int(str(row.ols)),
            int(str(row.mos)),
        )
        for row in published.itertuples()
    ]
    table = published.assign(predicted_per_s=predicted)
    return table.assign(ratio=table.predicted_per_s / table.inferences_per_s)


def predict(
    model: str,
    sku: Sku,
    cores: int,
    instances: int,
    batch_size: int,
    set_size: int,
    ols: int,
    mos: int,
) -> float:
    """Samples per second of one configuration."""
    program = compiled(model, sku, options(model, cores, batch_size, ols, mos))
    return measure(program, instances, set_size).inferences_per_s


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Median, mean and worst absolute error of each model."""
    error = (table.ratio - 1).abs()
    return error.groupby(table.model).agg(["median", "mean", "max"])


if __name__ == "__main__":
    sys.exit(main())
