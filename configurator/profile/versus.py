"""Two profiles side by side: what takes longer, and what less.

Both are taken from their documents, so that one may have been saved earlier. Times are of one
inference of the whole batch; of one sample where the batch sizes differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configurator.errors import ToolError, UsageError
from configurator.tables import grid, one_line

Times = tuple[tuple[str, float], ...]
"""Microseconds by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its point, its rate in samples, and its times per inference."""

    title: str
    batch_size: int
    inferences_per_s: float
    round_trip_us: float
    execution_us: float
    parts: Times
    operators: Times
    layers: Times


@dataclass(frozen=True, slots=True)
class Difference:
    """A row: `None` is what a side does not have at all."""

    name: str
    first: float | None
    second: float | None

    @property
    def change(self) -> float:
        """By how much the second is more."""
        return (self.second or 0.0) - (self.first or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences; times are microseconds of a `basis`: "inference" or "sample"."""

    first: Side
    second: Side
    basis: str
    whole: tuple[Difference, ...]
    parts: tuple[Difference, ...]
    operators: tuple[Difference, ...]
    layers: tuple[Difference, ...]


def side_of(document: Any, where: str) -> Side:
    """Of what `profile --json` printed; raises `UsageError` for anything else."""
    try:
        return _side(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else "has other values"
        raise UsageError(
            f"{where}: is not what `configurator profile --json` prints of one run: it {what}; "
            "save one with `configurator profile ... --json > FILE.json`"
        ) from error


def read_side(path: Path) -> Side:
    """The profile saved at `path`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is no JSON: {error}") from error
    return side_of(document, str(path))


def _side(document: Any) -> Side:
    profile = document["profile"]
    return Side(
        title=title_of(document),
        batch_size=int(document["batch_size"]),
        inferences_per_s=float(document["inferences_per_s"]),
        round_trip_us=float(profile["round_trip"]["us"]),
        execution_us=float(profile["execution"]["us"]),
        parts=tuple((str(name), float(time["us"])) for name, time in profile["parts"].items()),
        operators=_paths(profile["operators"], "op"),
        layers=_paths(profile["layers"], "name"),
    )


def title_of(document: Any) -> str:
    """Like `resnet50 on std: 2 cores x 7 instances, batch 4, set size 10, ols 2`."""
    names = ("model", "sku", "cores", "instances", "batch_size", "set_size")
    model, sku, cores, instances, batch, queue = (document[name] for name in names)
    at = f"{cores} cores x {instances} instances, batch {batch}, set size {queue}"
    given = [f", {name} {document[name]}" for name in ("ols", "mos") if document[name] is not None]
    return one_line(f"{model} on {sku}: {at}{''.join(given)}")


def _paths(groups: Any, key: str) -> Times:
    return tuple((str(group[key]), float(group["path"]["us"])) for group in groups)


def compare(first: Side, second: Side) -> Comparison:
    """Parts and layers by name, those of either side."""
    same = first.batch_size == second.batch_size
    scales = (1.0, 1.0) if same else (1 / first.batch_size, 1 / second.batch_size)
    whole: tuple[Times, Times] = tuple(  # type: ignore[assignment]
        (("round trip", side.round_trip_us), ("execution", side.execution_us))
        for side in (first, second)
    )
    return Comparison(
        first=first,
        second=second,
        basis="inference" if same else "sample",
        whole=_differences(*whole, scales),
        parts=_differences(first.parts, second.parts, scales),
        operators=_differences(first.operators, second.operators, scales),
        layers=_differences(first.layers, second.layers, scales),
    )


def _differences(
    first: Times, second: Times, scales: tuple[float, float]
) -> tuple[Difference, ...]:
    before, after = _scaled(first, scales[0]), _scaled(second, scales[1])
    names = dict.fromkeys([*before, *after])
    return tuple(Difference(name, before.get(name), after.get(name)) for name in names)


def _scaled(times: Times, scale: float) -> dict[str, float]:
    """By name; names that occur more than once, as of layers, count together."""
    found: dict[str, float] = {}
    for name, spent_us in times:
        found[name] = found.get(name, 0.0) + spent_us * scale
    return found


def document(found: Comparison) -> dict[str, object]:
    """What `profile --versus --json` has as `versus`."""
    return {
        "first": found.first.title,
        "second": found.second.title,
        "us_of": found.basis,
        **{
            name: [
                {"name": row.name, "first_us": row.first, "second_us": row.second} for row in rows
            ]
            for name, rows in _tables(found)
        },
    }


def _tables(found: Comparison) -> tuple[tuple[str, tuple[Difference, ...]], ...]:
    return (
        ("whole", found.whole),
        ("parts", found.parts),
        ("operators", found.operators),
        ("layers", found.layers),
    )


def text(found: Comparison, most_layers: int | None) -> str:
    """What `profile --versus` prints; the layers with the largest differences, `None` for all."""
    rates = (found.first.inferences_per_s, found.second.inferences_per_s)
    gain = f"{rates[1] / rates[0]:.2f}x" if rates[0] else "-"
    rate = ["inferences/s", f"{rates[0]:,.1f}", f"{rates[1]:,.1f}", gain]
    header = ["", "A", "B", "B - A"]
    rows = [*_rows(found.whole), *_rows(found.parts)]
    shown = _largest(found.layers, most_layers)
    return "\n\n".join(
        [
            f"A: {found.first.title}\nB: {found.second.title}",
            grid([["", "A", "B", "B / A"], rate]),
            f"us of {_article(found.basis)}\n{grid([header, *rows])}",
            "Operators, us of the critical path\n"
            + grid([header, *_rows(_largest(found.operators, None))]),
            f"Layers, us of the critical path{_shown_of(found.layers, shown)}\n"
            + grid([header, *_rows(shown)]),
        ]
    )


def _article(basis: str) -> str:
    return f"an {basis}" if basis == "inference" else f"a {basis}: the batch sizes differ"


def _shown_of(rows: tuple[Difference, ...], shown: tuple[Difference, ...]) -> str:
    if len(rows) == len(shown):
        return ""
    return f" (the {len(shown)} largest differences of {len(rows)}; --layers all for all)"


def _largest(rows: Iterable[Difference], most: int | None) -> tuple[Difference, ...]:
    return tuple(sorted(rows, key=lambda row: -abs(row.change))[:most])


def _rows(rows: Iterable[Difference]) -> list[list[str]]:
    return [[row.name, _us(row.first), _us(row.second), f"{row.change:+,.3f}"] for row in rows]


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"
