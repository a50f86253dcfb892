"""What every store must keep: `configurator.store.base.Store` says it, these tests hold it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.target import Sku
from configurator.errors import StoreError, UsageError
from configurator.records import (
    Candidate,
    GivenShape,
    Provenance,
    Study,
    TrialRow,
    TrialState,
    Workflow,
)
from configurator.store import MemoryStore, Store, open_store
from runtime_sim.measurement import Busy, Latency, Measurement, Source
from runtime_sim.options import RunOptions
from tests.configurator import device_model

# A fresh store each time it is called.
Stores = Callable[[], Store]

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
COUNT = st.integers(min_value=1, max_value=2**63 - 1)
SMALL = st.integers(min_value=1, max_value=64)
TIME = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]))
# Every finite double, the smallest and the largest; SQLite keeps no negative zero.
FINITE = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
SYMBOLS = st.lists(st.tuples(TEXT, COUNT), max_size=3).map(tuple)
EXTENTS = st.lists(COUNT, max_size=4).map(tuple)
SHAPES = st.lists(st.tuples(TEXT, EXTENTS), max_size=3).map(tuple)
GIVEN = st.builds(
    GivenShape,
    input=TEXT,
    dtype=st.sampled_from(DType),
    extents=EXTENTS,
    batch_dims=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)

candidates = st.builds(
    Candidate,
    st.builds(
        CompileOptions,
        num_cores=SMALL,
        batch_size=SMALL,
        ols=st.none() | SMALL,
        mos=st.none() | SMALL,
        multicast_weights=st.booleans(),
        symbols=SYMBOLS,
        input_shapes=SHAPES,
    ),
    st.builds(
        RunOptions,
        instances=SMALL,
        set_size=SMALL,
        inferences=SMALL,
        threads_per_queue=SMALL,
    ),
)
measurements = st.builds(
    Measurement,
    source=st.sampled_from(Source),
    backend_version=TEXT,
    timing_id=TEXT,
    inferences=SMALL,
    batch_size=SMALL,
    duration_s=st.floats(min_value=1e-300, max_value=1e300),
    latency=st.builds(Latency, FINITE, FINITE, FINITE, FINITE, FINITE),
    busy=st.builds(Busy, FINITE, FINITE, FINITE, FINITE, FINITE, FINITE, FINITE),
    clock_hz=st.none() | FINITE,
    power_w=st.none() | FINITE,
)
endings = st.tuples(st.just(TrialState.COMPLETE), measurements, st.just("")) | st.tuples(
    st.sampled_from([TrialState.INFEASIBLE, TrialState.FAILED]),
    st.none(),
    TEXT.filter(bool),
)
provenances = st.builds(
    Provenance,
    model_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    sku=st.sampled_from(Sku),
    compiler_version=TEXT,
    backend_version=TEXT,
    timing_id=TEXT,
    configurator_version=TEXT,
    seed=st.integers(min_value=-(2**63), max_value=2**63 - 1),
    host=TEXT,
)


@st.composite
def rows(draw: st.DrawFn) -> TrialRow:
    state, measurement, reason = draw(endings)
    return TrialRow(
        study="study",
        number=draw(st.integers(min_value=0, max_value=2**63 - 1)),
        candidate=draw(candidates),
        state=state,
        measurement=measurement,
        reason=reason,
        provenance=draw(provenances),
        started_at=draw(TIME),
        wall_s=draw(FINITE),
    )


studies = st.builds(
    Study,
    name=TEXT.filter(bool),
    model_path=TEXT,
    model_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    batch_symbol=st.none() | TEXT,
    symbols=SYMBOLS,
    input_shapes=st.lists(GIVEN, max_size=3).map(tuple),
    sku=st.sampled_from(Sku),
    workflow=st.sampled_from(Workflow),
    seed=st.integers(min_value=-(2**63), max_value=2**63 - 1),
    created_at=TIME,
)


def a_study(name: str = "study") -> Study:
    return Study(
        name=name,
        model_path="models/a.onnx",
        model_sha256="cd" * 32,
        batch_symbol="batch",
        symbols=(("seq_len", 128),),
        sku=Sku.STD,
        workflow=Workflow.THROUGHPUT,
        seed=7,
        created_at=device_model.WHEN,
    )


def a_candidate(cores: int = 2, set_size: int = 10) -> Candidate:
    return Candidate(CompileOptions(num_cores=cores), RunOptions(instances=1, set_size=set_size))


@pytest.fixture(params=["memory", "sqlite file", "sqlite memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    made = 0

    def fresh() -> Store:
        nonlocal made
        made += 1
        if request.param == "memory":
            return MemoryStore()
        if request.param == "sqlite memory":
            return open_store("sqlite://", create=True)
        return open_store(f"sqlite:///{tmp_path}/{made}.db", create=True)

    return fresh


@pytest.fixture
def store(stores: Stores) -> Store:
    made = stores()
    made.create_study(a_study())
    return made


# Each example makes a store of its own.
SHARED_FIXTURE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)


@SHARED_FIXTURE
@given(row=rows())
def test_a_row_is_read_as_it_was_written(stores: Stores, row: TrialRow) -> None:
    store = stores()
    store.create_study(a_study())
    store.add(row)
    # repr tells floats apart to the last bit.
    for read in (*store.rows("study"), store.find("study", row.candidate.key())):
        assert read == row
        assert read is not None
        assert repr(read.measurement) == repr(row.measurement)
        assert read.started_at.tzinfo is not None


@SHARED_FIXTURE
@given(study=studies)
def test_a_study_is_read_as_it_was_written(stores: Stores, study: Study) -> None:
    store = stores()
    store.create_study(study)
    assert store.study(study.name) == study
    assert store.studies() == (study,)


def test_rows_come_by_number_whatever_the_order_of_writing(store: Store) -> None:
    for number in (7, 0, 3):
        store.add(device_model.complete(number, a_candidate(set_size=number + 1)))
    assert [row.number for row in store.rows("study")] == [0, 3, 7]
    assert store.next_number("study") == 8


def test_candidates_of_other_input_shapes_are_others(store: Store) -> None:
    plain = a_candidate()
    shaped = [
        replace(plain, compile=replace(plain.compile, input_shapes=(("x", shape),)))
        for shape in ((1, 8), (8, 1), ())
    ]
    for number, candidate in enumerate((plain, *shaped)):
        store.add(device_model.complete(number, candidate))
    for number, candidate in enumerate((plain, *shaped)):
        found = store.find("study", candidate.key())
        assert found is not None
        assert (found.number, found.candidate) == (number, candidate)


def test_numbers_begin_at_zero_in_each_study(store: Store) -> None:
    store.add(device_model.complete(0, a_candidate()))
    store.create_study(a_study("other"))
    assert store.next_number("other") == 0
    store.add(replace(device_model.complete(0, a_candidate()), study="other"))
    assert len(store.rows("study")) == len(store.rows("other")) == 1


def test_studies_come_by_name(stores: Stores) -> None:
    store = stores()
    for name in ("b", "C", "a"):
        store.create_study(a_study(name))
    assert [study.name for study in store.studies()] == ["C", "a", "b"]


def test_a_second_study_of_one_name_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="there is a study study already"):
        store.create_study(replace(a_study(), seed=8))
    assert store.study("study").seed == 7


def test_a_number_that_is_taken_is_refused(store: Store) -> None:
    first = device_model.complete(4, a_candidate())
    store.add(first)
    with pytest.raises(StoreError, match="has a trial 4 already"):
        store.add(device_model.complete(4, a_candidate(cores=3)))
    assert store.rows("study") == (first,)


def test_a_candidate_that_is_known_is_refused(store: Store) -> None:
    first = device_model.complete(4, a_candidate())
    store.add(first)
    with pytest.raises(StoreError, match=r"candidate of trial 5 already, as trial 4"):
        store.add(device_model.infeasible(5, a_candidate()))
    assert store.rows("study") == (first,)
    assert store.next_number("study") == 5


def test_find_is_by_candidate_and_study(store: Store) -> None:
    row = device_model.complete(0, a_candidate())
    store.add(row)
    store.create_study(a_study("other"))
    assert store.find("study", a_candidate().key()) == row
    assert store.find("study", a_candidate(cores=3).key()) is None
    assert store.find("other", a_candidate().key()) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.study("x"),
        lambda store: store.rows("x"),
        lambda store: store.find("x", "key"),
        lambda store: store.next_number("x"),
        lambda store: store.add(replace(device_model.complete(0, a_candidate()), study="x")),
    ],
    ids=["study", "rows", "find", "next_number", "add"],
)
def test_an_unknown_study_is_named_with_those_that_exist(
    store: Store, call: Callable[[Store], object]
) -> None:
    with pytest.raises(UsageError, match="no study x; stored: study"):
        call(store)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(store: Store, bad: float) -> None:
    row = device_model.complete(0, a_candidate())
    measured = device_model.measure(a_candidate())
    for wrong in (
        replace(row, wall_s=bad),
        replace(row, measurement=replace(measured, duration_s=bad)),
        replace(row, measurement=replace(measured, busy=replace(measured.busy, ddr=bad))),
        replace(row, measurement=replace(measured, latency=replace(measured.latency, p99_s=bad))),
    ):
        with pytest.raises(StoreError, match="no finite number"):
            store.add(wrong)
    with pytest.raises(StoreError, match="no finite number"):
        store.add(replace(row, measurement=replace(measured, duration_s=0.0)))
    assert store.rows("study") == ()


def test_times_without_zone_are_refused(store: Store) -> None:
    naive = datetime(2024, 5, 6)
    with pytest.raises(StoreError, match="no zone"):
        store.add(replace(device_model.complete(0, a_candidate()), started_at=naive))
    with pytest.raises(StoreError, match="no zone"):
        store.create_study(replace(a_study("other"), created_at=naive))
    assert [study.name for study in store.studies()] == ["study"]
    assert store.rows("study") == ()
