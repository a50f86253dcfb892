"""The fit finds what was planted, a fold never sees its family, and the file is what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from configurator.validate.rows import MeasuredRow, read_rows
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from runtime_sim.timing import (
    CALIBRATED,
    CALIBRATED_FILE,
    PUBLISHED,
    TimingParams,
    as_document,
    from_document,
)
from studies.calibration.__main__ import ROWS, graphs
from studies.calibration.fit import Fit, fit
from studies.calibration.folds import errors_without
from studies.calibration.observations import Errors, Observation, errors_at
from studies.calibration.parameters import PARAMETERS, timing_at, timing_of, values_of
from studies.simulated import MODELS
from tests.oracles.programs import ProgramBuilder

RUN = RunOptions(instances=1, set_size=4)
PLANTED = replace(
    PUBLISHED,
    hmx_efficiency_permille=780,
    vector_millicycles=tuple(
        3 * cost if op is VectorOp.SIGMOID else cost
        for op, cost in zip(VectorOp, PUBLISHED.vector_millicycles, strict=True)
    ),
)


def observed(family: str, program: Program, timing: TimingParams) -> Observation:
    measured = SimulatorBackend(device(Sku.STD), timing).run(program, RUN)
    row = MeasuredRow(
        id=family,
        family=family,
        graph=family,
        dims=(),
        sku=Sku.STD,
        compile=program.options,
        run=RUN,
        measured_ips=measured.inferences_per_s,
        measured_ms=None,
        latency_stat="",
        power_w=None,
        note="best-throughput",
    )
    return Observation(row, program)


def observations(timing: TimingParams) -> tuple[Observation, ...]:
    """Each ruled by one parameter: products, a vector class that is off, and one that is not."""
    products, sigmoid, add = (ProgramBuilder(input_bytes=100, output_bytes=100) for _ in range(3))
    for _ in range(20):
        products.matmul(1024, 1024, 1024)
        sigmoid.vector(2_000_000, VectorOp.SIGMOID)
        add.vector(20_000_000, VectorOp.ADD)
    built = {"products": products, "sigmoid": sigmoid, "add": add}
    return tuple(observed(name, one.build(), timing) for name, one in built.items())


def fitted(rows: tuple[Observation, ...]) -> Fit:
    def simulate(points: Sequence[np.ndarray]) -> list[Errors]:
        return [errors_at(rows, timing_at(point)) for point in points]

    return fit(rows, simulate, lambda *_: None)


def test_the_fit_finds_what_was_planted() -> None:
    rows = observations(PLANTED)
    found = fitted(rows)
    timing = timing_of(values_of(found.logs))
    before, after = (np.abs(errors_at(rows, each).rate) for each in (PUBLISHED, timing))
    assert before.max() > 1
    assert after.max() < 0.05  # priors pull a little back
    assert abs(np.log(780 / timing.hmx_efficiency_permille)) < PARAMETERS[0].spread / 2
    wanted = PLANTED.vector_millicycles[VectorOp.SIGMOID]
    assert timing.vector_millicycles[VectorOp.SIGMOID] == pytest.approx(wanted, rel=0.05)
    assert list(found.loss) == sorted(found.loss, reverse=True)


def test_a_fold_does_not_see_its_family() -> None:
    """Whatever was measured of the family, its prediction is the same."""
    rows = observations(PLANTED)
    jacobians = fitted(rows).jacobians
    lied = tuple(
        Observation(replace(one.row, measured_ips=7.0), one.program)
        if one.row.family == "sigmoid"
        else one
        for one in rows
    )
    honest, other = (errors_without("sigmoid", each, each, jacobians) for each in (rows, lied))
    assert rows[1].row.measured_ips is not None
    predicted = [float(np.exp(honest.rate[0])) * rows[1].row.measured_ips]
    predicted.append(float(np.exp(other.rate[0])) * 7.0)
    assert predicted[0] == pytest.approx(predicted[1], rel=1e-9)
    assert predicted[0] > 2 * rows[1].row.measured_ips  # nothing else tells of sigmoid


def test_the_timing_file_holds_what_its_record_says() -> None:
    document = json.loads(CALIBRATED_FILE.read_text("utf-8"))
    values = {row["name"]: row["fitted"] for row in document["fit"]["parameters"]}
    assert timing_of([values[parameter.name] for parameter in PARAMETERS]) == CALIBRATED
    assert all(row["low"] <= row["fitted"] <= row["high"] for row in document["fit"]["parameters"])
    assert from_document(json.loads(json.dumps(as_document(CALIBRATED)))) == CALIBRATED


def test_the_graphs_of_all_rows_come_with_the_study() -> None:
    wanted = {f"{row.graph}.onnx" for row in read_rows(ROWS)}
    with graphs(None) as folder:
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(found) == wanted
    shipped = {path.name: path.read_bytes() for path in MODELS.glob("*.onnx")}
    assert shipped.items() <= found.items()
