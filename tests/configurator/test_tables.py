"""Shapes of the JSON and CSV, and what the text must say."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.options import CompileOptions
from compiler.program import Layer, MemoryUse, Program, TaskKind, Tasks
from compiler.target import DEVICES, SOURCES, Sku
from configurator import tables
from configurator.records import TrialRow, Workflow
from tests.configurator import view_rows

ROWS = view_rows.small_study_rows()
KNOBS = ["cores", "instances", "batch_size", "set_size", "ols", "mos", "multicast_weights"]
STATISTICS = ["mean", "p50", "p90", "p95", "p99"]


def _outcome(
    *,
    best: TrialRow = ROWS[4],
    baseline: TrialRow | None = ROWS[0],
    workflow: Workflow = Workflow.THROUGHPUT,
) -> tables.Outcome:
    return tables.Outcome(
        study=view_rows.study(workflow=workflow),
        rows=ROWS,
        best=best,
        runners_up=(ROWS[3], ROWS[5]),
        baseline=baseline,
        front=(ROWS[0], ROWS[3]),
        stopped="budget",
        explanation="all trials are done",
    )


def _program() -> Program:
    one = np.ones(1, dtype=np.int64)
    return Program(
        model_name="resnet50",
        model_sha256=view_rows.SHA,
        compiler_version="compiler 0",
        sku=Sku.STD,
        options=CompileOptions(num_cores=2, batch_size=4, ols=1, symbols=(("seq_len", 128),)),
        chosen=(("mos", "2"),),
        inputs=(),
        outputs=(),
        memory=MemoryUse(
            constants_bytes=3 << 20, ddr_per_instance_bytes=1 << 20, vtcm_peak_bytes=8_000_000
        ),
        layers=(Layer("conv", "Conv", (4, 8), 1, 1, 1, 0, 1, "rows"),),
        tasks=Tasks(
            kind=np.array([TaskKind.READ], dtype=np.int8),
            core=np.zeros(1, dtype=np.int16),
            layer=np.zeros(1, dtype=np.int32),
            w0=one,
            w1=one,
            w2=one,
            w3=one,
            after_start=np.zeros(2, dtype=np.int64),
            after=np.zeros(0, dtype=np.int32),
        ),
    )


def test_a_complete_trial_has_every_key_of_the_contract() -> None:
    document = tables.trial_document(ROWS[3])
    assert list(document) == [
        "number",
        "state",
        *KNOBS,
        "inferences_per_s",
        "latency_ms",
        "reason",
    ]
    assert document["latency_ms"] == pytest.approx(
        {"mean": 44.0, "p50": 43.56, "p90": 48.4, "p95": 52.8, "p99": 61.6}
    )
    assert document["inferences_per_s"] == pytest.approx(6300.0)
    assert document["reason"] is None


def test_an_infeasible_trial_has_nulls_and_a_reason() -> None:
    document = json.loads(json.dumps(tables.trial_document(ROWS[6])))
    assert document["state"] == "infeasible"
    assert document["inferences_per_s"] is None
    assert document["latency_ms"] is None
    assert document["reason"].startswith("Conv_1")


def test_an_unset_knob_is_null_and_auto() -> None:
    row = view_rows.complete(0, view_rows.candidate(ols=None, mos=None), 1.0, 1.0)
    assert tables.trial_document(row)["mos"] is None
    assert "auto" in tables.trials_text([row])


@given(reason=st.text(min_size=1).filter(str.strip))
def test_csv_reads_back(reason: str) -> None:
    row = view_rows.infeasible(7, view_rows.candidate(), reason)
    read = list(csv.DictReader(io.StringIO(tables.trials_csv((*ROWS, row)))))
    assert list(read[0]) == [
        "number",
        "state",
        *KNOBS,
        "inferences_per_s",
        *(f"latency_{name}_ms" for name in STATISTICS),
        "reason",
    ]
    assert len(read) == len(ROWS) + 1
    assert float(read[3]["inferences_per_s"]) == pytest.approx(6300.0)
    assert read[6]["inferences_per_s"] == ""
    assert read[7]["reason"] == tables.one_line(reason)


@given(reason=st.text(min_size=1))
def test_a_trial_is_one_line_whatever_the_reason(reason: str) -> None:
    rows = (view_rows.infeasible(0, view_rows.candidate(), reason), ROWS[1])
    text = tables.trials_text(rows)
    assert len(text.splitlines()) == 3
    assert text.replace("\n", "").isprintable()


def test_outcome_document_is_the_contract() -> None:
    document = json.loads(json.dumps(tables.outcome_document(_outcome())))
    assert {key: document[key] for key in ("study", "workflow", "sku", "model", "trials")} == {
        "study": "resnet50-throughput",
        "workflow": "throughput",
        "sku": "std",
        "model": "models/resnet50.onnx",
        "trials": 7,
    }
    assert document["stopped"] == "budget"
    assert document["best"]["number"] == 4
    assert document["baseline"]["cores"] == 14
    assert [row["number"] for row in document["front"]] == [0, 3]
    assert sorted(document["best"]["latency_ms"]) == sorted(STATISTICS)
    assert (
        json.loads(json.dumps(tables.outcome_document(_outcome(baseline=None))))["baseline"]
        is None
    )


def test_outcome_text_ranks_and_compares() -> None:
    lines = tables.outcome_text(_outcome()).splitlines()
    assert "models/resnet50.onnx on std, throughput" in lines[0]
    assert "simulated" in lines[0]
    named = {line.split("  ")[0]: line for line in lines if line}
    assert list(named)[2:6] == ["best", "no. 2", "no. 3", "baseline"]
    # 6500 / 1800, 6300 / 1800 and 4800 / 1800 by hand.
    gains = [named[name].split()[-1] for name in ("best", "no. 2", "no. 3", "baseline")]
    assert gains == ["3.61x", "3.50x", "2.67x", "1.00x"]
    assert "trials: 7 (6 complete, 1 infeasible)" in lines
    assert "stopped: budget (all trials are done)" in lines


def test_gain_of_latency_is_above_one_for_the_quicker() -> None:
    # 28 ms against 5.5 ms by hand.
    assert tables.gain(Workflow.LATENCY, ROWS[0], ROWS[1]) == pytest.approx(28.0 / 5.5)


@pytest.mark.parametrize(
    ("baseline", "said"), [(None, "(not measured)"), (ROWS[6], "(Conv_1: needs 9 MiB")]
)
def test_a_missing_baseline_is_explained(baseline: TrialRow | None, said: str) -> None:
    text = tables.outcome_text(_outcome(baseline=baseline))
    assert said in text
    assert next(line for line in text.splitlines() if line.startswith("best")).endswith("-")


def test_run_document_says_what_ran_and_what_came_out() -> None:
    measured = view_rows.measurement(6300.0, 0.044, 4)
    document = json.loads(json.dumps(tables.run_document(_program(), 7, 10, measured)))
    assert {name: document[name] for name in KNOBS} == {
        "cores": 2,
        "instances": 7,
        "batch_size": 4,
        "set_size": 10,
        "ols": 1,
        "mos": None,
        "multicast_weights": True,
    }
    assert document["inferences_per_s"] == pytest.approx(6300.0)
    assert sorted(document["latency_ms"]) == sorted(STATISTICS)
    assert document["busy"] == {
        field.name: getattr(measured.busy, field.name) for field in fields(measured.busy)
    }
    assert document["source"] == "simulator"
    assert document["symbols"] == {"seq_len": 128}


def test_run_text_has_units() -> None:
    text = tables.run_text(_program(), 7, 10, view_rows.measurement(6300.0, 0.044, 4))
    for said in ("2 x 7", "6,300.0 inferences/s", "mean 44.000", " ms", "hmx 50%", "simulated"):
        assert said in text


def test_program_views_agree() -> None:
    document = tables.program_document(_program(), "out/programqpc.bin")
    assert json.loads(json.dumps(document)) == document
    assert document["vtcm_peak_bytes"] == 8_000_000
    text = tables.program_text(_program(), "out/programqpc.bin")
    for said in ("out/programqpc.bin", "3.00 MiB", "7.63 MiB", "mos=2", "1 in 1 layers"):
        assert said in text


def test_devices_show_every_number_with_its_source() -> None:
    document = json.loads(json.dumps(tables.devices_document(DEVICES)))
    assert [shown["sku"] for shown in document["devices"]] == [spec.sku.value for spec in DEVICES]
    for shown, spec in zip(document["devices"], DEVICES, strict=True):
        for field in fields(spec):
            if field.name not in ("sku", "sources"):
                assert shown[field.name] == getattr(spec, field.name)
        assert set(shown["sources"].values()) <= set(document["sources"])
    text = tables.devices_text(DEVICES)
    for spec in DEVICES:
        assert f"\n{spec.sku.value} " in f"\n{text}"
    for key in SOURCES:
        assert f"[{key}]" in text
    assert "136.5 GB/s [linley]" in text


def test_a_value_that_differs_moves_into_the_table() -> None:
    slower = replace(DEVICES[0], nsp_max_clock_hz=1_000_000_000)
    header = tables.devices_text((slower, DEVICES[1])).splitlines()[0]
    assert "nsp_max_clock_hz" in header
    assert "nsp_max_clock_hz" not in tables.devices_text(DEVICES).splitlines()[0]


CELL = st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=9)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1)
    )
)
def test_grid_columns_line_up(lines: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = tables.grid(lines, left=range(len(widths)))
    for shown, cells in zip(text.split("\n"), lines, strict=True):
        start = 0
        for cell, width in zip(cells, widths, strict=True):
            assert shown[start : start + width].rstrip() == cell
            start += width + 2
