"""The `validate` command on a tiny model whose measurements the test invents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

from configurator.cli.app import invoke

HEAD = (
    "id,family,graph,dims,sku,precision,cores,instances,batch_size,set_size,ols,mos,flags,"
    "throughput_ips,latency_ms,latency_stat,power_w,note"
)
ROWS = (
    "a,f1,tiny,image=8,std,fp16,1,2,1,2,1,1,-multicast-weights,{ips},1.5,p95 of total,,fast",
    "b,f1,tiny,,std,fp16,1,1,1,1,,default,,,0.5,wall time per inference (objective),,slow",
    "c,f2,tiny,,std,fp16,15,1,1,1,1,1,,100,,,,slow",
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=9), folder / "tiny.onnx")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([HEAD, *ROWS]).format(ips=12345) + "\n")
    return path


def validated(data: Path, models: Path, *more: str) -> int:
    return invoke(["validate", "--data", str(data), "--models", str(models), *more])


def test_the_document_has_errors_by_note_family_and_row(
    data: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validated(data, models, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"overall", "latency", "groups", "families", "rows"}
    keys = {"n", "refused", "median_ape", "mean_ape", "bias", "kendall_tau", "spearman_rho"}
    for errors in (found["overall"], found["latency"], *found["groups"].values()):
        assert set(errors) == keys
    assert set(found["groups"]) == {"fast", "slow"}
    assert set(found["families"]) == {"f1", "f2"}
    first, second, third = found["rows"]
    assert first["measured_ips"] == 12345
    assert first["refused"] is None
    # The wall time of an inference of one sample is one over the rate.
    assert second["measured_ips"] is None
    assert second["predicted_latency_ms"] == pytest.approx(1e3 / second["predicted_ips"])
    assert "cores is 15" in third["refused"]
    assert found["overall"]["n"] == 1
    assert found["overall"]["refused"] == 1
    assert found["overall"]["median_ape"] == pytest.approx(abs(first["predicted_ips"] / 12345 - 1))


def test_a_prediction_is_what_run_says(
    data: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validated(data, models, "--json")
    row = json.loads(capsys.readouterr().out)["rows"][0]
    knobs = "--cores 1 --instances 2 --batch-size 1 --set-size 2 --ols 1 --mos 1 --json"
    assert invoke(["run", str(models / "tiny.onnx"), *knobs.split()]) == 0
    run = json.loads(capsys.readouterr().out)
    assert row["predicted_ips"] == pytest.approx(run["inferences_per_s"])
    assert row["predicted_latency_ms"] == pytest.approx(run["latency_ms"]["p95"], abs=1e-6)


def test_mos_above_the_cores_is_lowered_and_told(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Published runs have it, as fast as without: it is the most that may be split."""
    path = tmp_path / "rows.csv"
    cells = "f,tiny,,std,fp16,{},1,1,1,1,{},{},100,,,,note"
    knobs = [
        (1, 1, ""),
        (1, 2, "-use-producer-dma=1"),
        (4, '"1,7"', '"-sdp-cluster-sizes=2,2"'),
        (4, '"1,2"', '"-sdp-cluster-sizes=2,2"'),
    ]
    lines = [f"{at}," + cells.format(*row) for at, row in enumerate(knobs)]
    path.write_text("\n".join([HEAD, *lines]))
    assert validated(path, models, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["refused"] for row in rows] == [None] * 4
    assert rows[1]["predicted_ips"] == rows[0]["predicted_ips"]
    assert rows[3]["predicted_ips"] == rows[2]["predicted_ips"]
    assert [row["remarks"] for row in rows] == [
        [],
        [
            "mos is 2, cores are 1: simulated with mos 1",
            "-use-producer-dma is not simulated",
        ],
        ["mos is 1,7, cores are 2,2: simulated with mos 1,2"],
        [],
    ]
    assert validated(path, models) == 0
    assert "cores are 1: simulated with mos 1: 1" in capsys.readouterr().out


def test_text_pictures_and_the_limit(
    data: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = validated(
        data, models, "--plot", str(tmp_path / "out"), "--max-median-error", "0.000001"
    )
    assert code == 4
    shown = capsys.readouterr().out
    assert "worst rows" in shown
    assert "c: cores is 15" in shown
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".png", ".svg"}


def test_processes_give_the_same(
    data: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validated(data, models, "--json")
    alone = capsys.readouterr().out
    validated(data, models, "--json", "--jobs", "2")
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,family\na,b\n", "has no column graph"),
        (HEAD + "\n" + ROWS[0].format(ips="fast"), "line 2: could not convert"),
        (HEAD + "\n" + ROWS[0].format(ips=1).replace("std", "huge"), "line 2: 'huge'"),
        (HEAD + "\n" + ROWS[0].format(ips=0), "line 2: 0: must be a number above 0"),
        (HEAD + "\n" + ROWS[0].format(ips="inf"), "line 2: inf: must be a number above 0"),
        (HEAD + "\nshort,row", "line 2: "),
        (HEAD + "\n" + "x" * 200_000, "field larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    text: str, told: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert validated(path, models) == 2
    assert told in capsys.readouterr().err


def test_missing_places_are_told(
    data: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validated(tmp_path / "none.csv", models) == 2
    assert validated(data, tmp_path / "none") == 2
    assert "is no folder" in capsys.readouterr().err
