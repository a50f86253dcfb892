"""Figures: what they show, that it can be read, and that they are written whole."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from configurator import plots
from configurator.errors import InfeasibleError
from configurator.records import TrialRow, Workflow
from tests.configurator import view_rows

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.get_lines()}


def _drawn(line: Line2D) -> list[tuple[float, float]]:
    """Points to a millionth: values only pass through the figure."""
    return [(round(x, 6), round(y, 6)) for x, y in np.asarray(line.get_xydata()).tolist()]


def _title(figure: Figure) -> str:
    return figure.get_suptitle()


@pytest.mark.parametrize(("name", "draw"), plots.FIGURES, ids=[name for name, _ in plots.FIGURES])
def test_every_axis_has_a_label_and_every_figure_says_what_it_is(
    name: str, draw: plots.Draw
) -> None:
    figure = draw(view_rows.study(), view_rows.small_study_rows())
    for axes in figure.get_axes():
        assert axes.get_xlabel()
        assert axes.get_ylabel()
    assert _title(figure) == "resnet50 on Cloud AI 100 std (simulated)"


def test_scatter_shows_complete_trials_and_the_front() -> None:
    rows = view_rows.small_study_rows()
    (axes,) = plots.throughput_against_latency(view_rows.study(), rows).get_axes()
    lines = _lines(axes)
    assert "(ms)" in axes.get_xlabel()
    assert "(inferences/s)" in axes.get_ylabel()
    measured = [
        (round(row.measurement.latency.mean_s * 1e3, 6), row.measurement.inferences_per_s)
        for row in rows
        if row.measurement is not None
    ]
    assert _drawn(lines["trials"]) == measured
    # By hand from the six complete rows: only (34 ms, 4100/s) is beaten, by (33 ms, 4800/s).
    assert [round(x, 3) for x, _ in _drawn(lines["Pareto front"])] == [5.5, 28.0, 33.0, 44.0, 86.0]
    assert _drawn(lines["best"]) == [(86.0, 6500.0)]
    assert "2 x 7, batch 8, set size 10" in axes.texts[0].get_text()


def test_latency_study_marks_the_lowest_latency() -> None:
    study = view_rows.study(workflow=Workflow.LATENCY)
    (axes,) = plots.throughput_against_latency(study, view_rows.small_study_rows()).get_axes()
    assert _drawn(_lines(axes)["best"]) == [(5.5, 1800.0)]


def test_batch_figure_keeps_to_the_best_split() -> None:
    rows = view_rows.small_study_rows()
    rate, latency = plots.against_batch_size(view_rows.study(), rows).get_axes()
    assert _drawn(rate.get_lines()[0]) == [(1, 2500.0), (2, 4100.0), (4, 6300.0), (8, 6500.0)]
    assert _drawn(latency.get_lines()[0]) == [(1, 28.0), (2, 34.0), (4, 44.0), (8, 86.0)]
    assert [text.get_text() for text in latency.texts] == ["s10"] * 4
    assert "(inferences/s)" in rate.get_ylabel()
    assert "(ms)" in latency.get_ylabel()
    assert "(samples)" in rate.get_xlabel()


def test_batch_figure_takes_the_fastest_set_size_of_a_batch() -> None:
    slow = view_rows.complete(7, view_rows.candidate(batch_size=4, set_size=1), 6200.0, 0.011)
    fast = view_rows.complete(8, view_rows.candidate(batch_size=4, set_size=12), 6400.0, 0.05)
    rows = (*view_rows.small_study_rows(), slow, fast)
    rate, latency = plots.against_batch_size(view_rows.study(), rows).get_axes()
    assert (4, 6400.0) in _drawn(rate.get_lines()[0])
    assert [text.get_text() for text in latency.texts] == ["s10", "s10", "s12", "s10"]


def test_batch_figure_looks_at_all_splits_when_the_best_has_one_batch_size() -> None:
    rows = (
        view_rows.complete(0, view_rows.candidate(batch_size=8), 6500.0, 0.09),
        view_rows.complete(
            1, view_rows.candidate(cores=1, instances=14, batch_size=2), 4000.0, 0.1
        ),
    )
    figure = plots.against_batch_size(view_rows.study(), rows)
    rate, _ = figure.get_axes()
    assert _drawn(rate.get_lines()[0]) == [(2, 4000.0), (8, 6500.0)]
    assert "fastest split of each" in figure.get_supxlabel()


def test_bars_are_the_best_of_each_split() -> None:
    (axes,) = plots.against_split(view_rows.study(), view_rows.small_study_rows()).get_axes()
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    labels = [tick.get_text() for tick in axes.get_xticklabels()]
    assert dict(zip(labels, heights, strict=True)) == {
        "C2xI7": 6500.0,
        "C7xI2": 4800.0,
        "C14xI1": 1800.0,
    }
    assert "(inferences/s)" in axes.get_ylabel()


def test_of_many_splits_the_fastest_are_shown_and_the_rest_counted() -> None:
    splits = [(cores, count) for cores in range(1, 15) for count in range(1, 14 // cores + 1)]
    rows = [
        view_rows.complete(
            number, view_rows.candidate(cores=cores, instances=count), 100.0 + cores * count, 0.01
        )
        for number, (cores, count) in enumerate(splits)
    ]
    (axes,) = plots.against_split(view_rows.study(), rows).get_axes()
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    fastest = sorted((100.0 + cores * count for cores, count in splits), reverse=True)
    assert sorted(heights, reverse=True) == pytest.approx(fastest[: len(heights)])
    assert f"{len(heights)} fastest of {len(splits)}" in axes.get_xlabel()


def test_files_are_pictures_and_equal_for_equal_rows(tmp_path: Path) -> None:
    study, rows = view_rows.study(), view_rows.small_study_rows()
    written = plots.save_all(study, rows, tmp_path / "new" / "folder")
    assert len(written) == 2 * len(plots.FIGURES)
    assert sorted(written) == sorted((tmp_path / "new" / "folder").iterdir())
    for path in written:
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(PNG_SIGNATURE)
    again = plots.save_all(study, rows, tmp_path / "again")
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]


def test_one_trial_is_enough(tmp_path: Path) -> None:
    assert plots.save_all(view_rows.study(), view_rows.small_study_rows()[:1], tmp_path)


@pytest.mark.parametrize("path", ["$x^$_{.onnx", "日本語.onnx", "a\nb.onnx", "x" * 300 + ".onnx"])
def test_any_model_name_can_be_drawn(path: str, tmp_path: Path) -> None:
    figure = plots.against_split(view_rows.study(model_path=path), view_rows.small_study_rows())
    figure.savefig(tmp_path / "figure.svg")


@pytest.mark.parametrize("rows", [(), view_rows.small_study_rows()[-1:]])
def test_nothing_to_draw_leaves_no_folder(rows: tuple[TrialRow, ...], tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="no complete trial"):
        plots.save_all(view_rows.study(), rows, tmp_path / "out")
    assert not (tmp_path / "out").exists()
