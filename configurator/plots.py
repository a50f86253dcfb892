"""Figures of a study, drawn from its rows alone.

Colours are those of Okabe and Ito, which readers with any common colour vision tell apart; what
matters also differs by marker. Figures are made to be read at half the width of a page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from configurator import objective
from configurator.errors import InfeasibleError
from configurator.records import Study, TrialRow
from runtime_sim.measurement import Measurement, Source

BLACK = "#000000"
SKY = "#56B4E9"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREY = "#8A8A8A"
_COLOURS = (BLUE, VERMILLION, SKY, BLACK, "#009E73", "#E69F00", "#CC79A7")
_MARKERS = ("o", "s", "^", "D", "v")

_SIZE_INCHES = (6.4, 4.4)
_WIDE_INCHES = (7.6, 4.4)
_DOTS_PER_INCH = 200
# Tried by eye at half a page's width: labels that fit side by side, bars, room for them, letters
# of a title.
_MOST_UPRIGHT_LABELS = 7
_MOST_BARS = 16
_FEWEST_SLOTS = 5
_LONGEST_NAME = 32

_SOURCES = {
    Source.SIMULATOR: "simulated",
    Source.HARDWARE: "measured on a card",
    Source.NULL: "made-up numbers",
}


@dataclass(frozen=True, slots=True)
class _Point:
    """A complete trial without the optionals."""

    row: TrialRow
    measured: Measurement

    @property
    def rate(self) -> float:
        return self.measured.inferences_per_s

    @property
    def latency_ms(self) -> float:
        return self.measured.latency.mean_s * 1e3

    @property
    def batch_size(self) -> int:
        return self.row.candidate.compile.batch_size

    @property
    def set_size(self) -> int:
        return self.row.candidate.run.set_size

    @property
    def split(self) -> tuple[int, int]:
        candidate = self.row.candidate
        return candidate.compile.num_cores, candidate.run.instances


@contextmanager
def _style() -> Iterator[None]:
    with rc_context(
        {
            "font.size": 12,
            "axes.titlesize": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "legend.frameon": False,
            "legend.fontsize": 10.5,
            "lines.linewidth": 2.0,
            # A dollar sign in a model's name is no formula.
            "text.parse_math": False,
            # A fixed salt and no date: equal rows give equal files.
            "svg.hashsalt": "configurator",
        }
    ):
        yield


@_style()
def throughput_against_latency(study: Study, rows: Iterable[TrialRow]) -> Figure:
    """Every complete trial as a point, the Pareto front as a line, the best one named."""
    points = _points(rows)
    front = sorted(_points(objective.pareto_front(_rows(points))), key=lambda p: p.latency_ms)
    best = _best(study, points)
    figure = _figure(study, points, _SIZE_INCHES)
    axes = figure.add_subplot()
    axes.plot(*_coordinates(points), "o", color=GREY, alpha=0.6, label="trials")
    axes.plot(*_coordinates(front), "D-", color=BLUE, drawstyle="steps-post", label="Pareto front")
    axes.plot(*_coordinates([best]), "*", color=VERMILLION, markersize=18, label="best")
    axes.set_xscale("log")
    axes.set(xlabel="mean latency of a batch (ms)", ylabel="throughput (inferences/s)")
    _plain_log_ticks(axes)
    _rates_from_zero(axes, headroom=1.3)
    axes.text(0.02, 0.98, _named(best), transform=axes.transAxes, va="top", fontsize=11)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@_style()
def against_batch_size(study: Study, rows: Iterable[TrialRow]) -> Figure:
    """Throughput and latency side by side, for each batch size at the best trial's split.

    Of several trials of a batch size the fastest one is drawn, its set size beside its latency.
    Where that split saw one batch size only, the fastest trials of all splits are drawn.
    """
    points = _points(rows)
    shown, where = _batch_sweep(_best(study, points), points)
    batches = [point.batch_size for point in shown]
    figure = _figure(study, points, _WIDE_INCHES)
    rate, latency = figure.subplots(1, 2)
    rate.plot(batches, [point.rate for point in shown], "o-", color=BLUE)
    latency.plot(batches, [point.latency_ms for point in shown], "s-", color=VERMILLION)
    rate.set_ylabel("throughput (inferences/s)")
    latency.set_ylabel("mean latency of a batch (ms)")
    _rates_from_zero(rate)
    _from_zero(latency)
    _label_set_sizes(latency, shown)
    for axes in (rate, latency):
        _batch_axis(axes, batches)
    figure.supxlabel(f"at {where}; s: set size", fontsize=11)
    return figure


@_style()
def against_split(study: Study, rows: Iterable[TrialRow]) -> Figure:
    """The best throughput of each cores x instances pair, as bars; of many pairs the fastest.

    `C2xI7` is 2 cores and 7 instances, as on the vendor's tuning page.
    """
    points = _points(rows)
    _best(study, points)
    pairs = sorted(_fastest_by(points, lambda p: p.split), key=lambda p: p.rate, reverse=True)
    top, shown = pairs[0], sorted(pairs[:_MOST_BARS], key=lambda p: p.split)
    figure = _figure(study, points, _WIDE_INCHES)
    axes = figure.add_subplot()
    labels = [_split_label(point) for point in shown]
    colours = [VERMILLION if point is top else SKY for point in shown]
    bars = axes.bar(labels, [point.rate for point in shown], color=colours, edgecolor=BLACK)
    axes.bar_label(bars, [f"b{point.batch_size}" for point in shown], fontsize=10, padding=2)
    spare_slots = max(0, _FEWEST_SLOTS - len(shown)) / 2
    axes.set_xlim(-0.6 - spare_slots, len(shown) - 0.4 + spare_slots)
    axes.tick_params("x", rotation=90 if len(shown) > _MOST_UPRIGHT_LABELS else 0)
    axes.grid(visible=False, axis="x")
    count = (
        f"{len(pairs)}" if len(pairs) == len(shown) else f"{len(shown)} fastest of {len(pairs)}"
    )
    axes.set_xlabel(f"cores x instances ({count} tried); b: batch size of the best trial")
    axes.set_ylabel("best throughput (inferences/s)")
    _rates_from_zero(axes)
    return figure


Draw = Callable[[Study, Iterable[TrialRow]], Figure]

FIGURES: tuple[tuple[str, Draw], ...] = (
    ("throughput-latency", throughput_against_latency),
    ("batch-size", against_batch_size),
    ("cores-instances", against_split),
)


def save_all(study: Study, rows: Iterable[TrialRow], directory: Path) -> tuple[Path, ...]:
    """Write each figure as PNG and SVG into `directory`, made where missing; the paths written.

    Everything is drawn before the first file is touched. Raises `InfeasibleError` where no trial
    is complete.
    """
    rows = tuple(rows)
    figures = [(name, draw(study, rows)) for name, draw in FIGURES]
    pictures = [
        (f"{name}.{suffix}", _rendered(figure, suffix))
        for name, figure in figures
        for suffix in ("png", "svg")
    ]
    directory.mkdir(parents=True, exist_ok=True)
    return tuple(_write(directory / name, content) for name, content in pictures)


def save_scatter(points: Iterable[tuple[float, float, str]], directory: Path) -> tuple[Path, ...]:
    """Write measured against predicted, a (predicted, measured, family) each, as PNG and SVG."""
    figure = draw_scatter(tuple(points))
    pictures = [(f"validation.{suffix}", _rendered(figure, suffix)) for suffix in ("png", "svg")]
    directory.mkdir(parents=True, exist_ok=True)
    return tuple(_write(directory / name, content) for name, content in pictures)


@_style()
def draw_scatter(points: tuple[tuple[float, float, str], ...]) -> Figure:
    """On logarithmic axes, a colour and marker for each family, with the line of no error."""
    if not points:
        raise InfeasibleError("nothing was predicted, so there is nothing to draw")
    figure = Figure(figsize=_WIDE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    for number, family in enumerate(sorted({family for _, _, family in points})):
        own = [(predicted, measured) for predicted, measured, name in points if name == family]
        marker, colour = _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]
        across, up = [point[0] for point in own], [point[1] for point in own]
        axes.scatter(across, up, s=18, marker=marker, color=colour, label=family)
    ends = [f(value for point in points for value in point[:2]) for f in (min, max)]
    axes.plot(ends, ends, color=GREY, linewidth=1, zorder=0)
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlabel="predicted (inferences/s)", ylabel="measured (inferences/s)")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


@_style()
def _rendered(figure: Figure, suffix: str) -> bytes:
    buffer = BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {}
    figure.savefig(buffer, format=suffix, dpi=_DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _points(rows: Iterable[TrialRow]) -> list[_Point]:
    return [_Point(row, row.measurement) for row in rows if row.measurement is not None]


def _rows(points: Iterable[_Point]) -> tuple[TrialRow, ...]:
    return tuple(point.row for point in points)


def _best(study: Study, points: list[_Point]) -> _Point:
    row = objective.best(_rows(points), study.workflow)
    if row is None or row.measurement is None:
        raise InfeasibleError(f"study {study.name} has no complete trial to draw; tune it first")
    return _Point(row, row.measurement)


def _fastest_by(points: list[_Point], key: Callable[[_Point], object]) -> list[_Point]:
    fastest: dict[object, _Point] = {}
    for point in points:
        if point.rate > fastest.setdefault(key(point), point).rate:
            fastest[key(point)] = point
    return list(fastest.values())


def _coordinates(points: list[_Point]) -> tuple[list[float], list[float]]:
    return [point.latency_ms for point in points], [point.rate for point in points]


def _figure(study: Study, points: list[_Point], size_inches: tuple[float, float]) -> Figure:
    figure = Figure(figsize=size_inches, layout="constrained")
    how = " and ".join(sorted({_SOURCES[point.measured.source] for point in points}))
    model = PurePath(study.model_path).stem
    figure.suptitle(f"{_short(model)} on Cloud AI 100 {study.sku.value} ({how})")
    return figure


def _short(name: str) -> str:
    """`name` in letters that the figure's font has, its middle left out where it is too long."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    drawn = plain.encode("latin-1", "replace").decode("latin-1")
    return drawn if len(drawn) <= _LONGEST_NAME else f"{drawn[:12]}...{drawn[-12:]}"


def _named(best: _Point) -> str:
    cores, instances = best.split
    return (
        f"best: cores x instances {cores} x {instances}, "
        f"batch {best.batch_size}, set size {best.set_size}\n"
        f"{best.rate:,.0f} inferences/s at {best.latency_ms:.3g} ms"
    )


def _rates_from_zero(axes: Axes, headroom: float = 1.08) -> None:
    _from_zero(axes, headroom)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _from_zero(axes: Axes, headroom: float = 1.08) -> None:
    axes.set_ylim(0, axes.dataLim.ymax * headroom)


def _plain_log_ticks(axes: Axes) -> None:
    """1, 2, 5, 10, 20 ... instead of powers of ten: the range is often under a decade."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _batch_sweep(best: _Point, points: list[_Point]) -> tuple[list[_Point], str]:
    at_split = _fastest_by([p for p in points if p.split == best.split], lambda p: p.batch_size)
    anywhere = _fastest_by(points, lambda p: p.batch_size)
    alone = len(at_split) == 1 and len(anywhere) > 1
    shown, where = (
        (anywhere, "the fastest split of each")
        if alone
        else (at_split, f"{_split_label(best)} (cores x instances)")
    )
    return sorted(shown, key=lambda point: point.batch_size), where


def _split_label(point: _Point) -> str:
    return "C{}xI{}".format(*point.split)


def _label_set_sizes(axes: Axes, shown: list[_Point]) -> None:
    for point in shown:
        axes.annotate(
            f"s{point.set_size}",
            (point.batch_size, point.latency_ms),
            xytext=(-8, 4),
            textcoords="offset points",
            ha="right",
            fontsize=10,
        )


def _batch_axis(axes: Axes, batches: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.minorticks_off()
    axes.margins(x=0.12)
    axes.set_xlabel("batch size (samples)")
