"""The loop: what is stored, resumed, refused, and why it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import compiler.errors
from compiler.errors import UnsupportedError
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from compiler.target import Sku, device
from configurator.errors import (
    ConfiguratorError,
    InfeasibleError,
    StoreError,
    ToolError,
    UsageError,
)
from configurator.records import GivenShape, TrialRow, TrialState, Workflow
from configurator.search import Sampler
from configurator.space import Choices, space_for
from configurator.store import MemoryStore, Store, open_store
from configurator.tune import Stopped, TuneRequest, TuneResult, tune
from runtime_sim.options import RunOptions
from tests.configurator import device_model
from tests.configurator.fakes import STD, FakeBackend, FakeCompiler, toolchain

REQUEST = TuneRequest(
    study="study",
    model_path=Path("model.onnx"),
    model_sha256="cd" * 32,
    batch_symbol="batch",
    symbols=(),
    workflow=Workflow.THROUGHPUT,
    device=STD,
    seed=3,
    trials=12,
    space=space_for(Workflow.THROUGHPUT, STD),
)
TINY = space_for(Workflow.THROUGHPUT, STD, Choices(cores=(7, 14), set_sizes=(1, 2)))


def ignore(row: TrialRow) -> None:
    """For tests that look at the result alone."""


def forbid(row: TrialRow) -> None:
    """For tests in which nothing is left to try."""
    pytest.fail(f"trial {row.number} is new")


def tuned(
    request: TuneRequest = REQUEST,
    store: Store | None = None,
    *,
    compiler: FakeCompiler | None = None,
    backend: FakeBackend | None = None,
    on_trial: Callable[[TrialRow], None] = ignore,
) -> TuneResult:
    made = toolchain(compiler, backend, card=request.device)
    return tune(request, made, MemoryStore() if store is None else store, on_trial)


def asked(result: TuneResult) -> list[str]:
    return [row.candidate.key() for row in result.rows]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return open_store(f"sqlite:///{tmp_path}/studies.db", create=True)


def test_every_trial_is_stored_and_shown_once(store: Store) -> None:
    shown: list[TrialRow] = []

    def on_trial(row: TrialRow) -> None:
        assert store.find("study", row.candidate.key()) == row
        shown.append(row)

    result = tuned(store=store, on_trial=on_trial)
    assert tuple(shown) == result.rows == store.rows("study")
    assert [row.number for row in result.rows] == list(range(12))
    assert len(set(asked(result))) == 12
    assert result.stopped is Stopped.BUDGET
    assert result.study == store.study("study")


def test_a_row_says_what_was_measured_when_and_by_what() -> None:
    before = datetime.now(UTC)
    row = tuned(replace(REQUEST, trials=1)).rows[0]
    assert row.measurement == device_model.measure(row.candidate)
    assert before <= row.started_at <= datetime.now(UTC)
    assert row.wall_s >= 0
    made = row.provenance
    assert (made.model_sha256, made.sku, made.seed) == ("cd" * 32, Sku.STD, 3)
    assert made.compiler_version == device_model.PROVENANCE.compiler_version
    assert made.backend_version == device_model.PROVENANCE.backend_version
    assert made.timing_id == device_model.PROVENANCE.timing_id
    assert made.configurator_version
    assert made.host


def test_the_result_names_best_baseline_and_front() -> None:
    result = tuned()
    rates = {
        row.number: row.measurement.inferences_per_s for row in result.rows if row.measurement
    }
    assert result.best is not None
    assert result.best.measurement is not None
    assert rates[result.best.number] >= 0.999 * max(rates.values())
    assert result.baseline == result.rows[0]
    assert result.rows[0].candidate == REQUEST.space.baseline(Workflow.THROUGHPUT)
    assert result.best in result.front or len(result.front) > 1
    assert set(result.front) <= set(result.rows)


@pytest.mark.parametrize("sampler", Sampler)
def test_the_same_command_again_adds_nothing(store: Store, sampler: Sampler) -> None:
    request = replace(REQUEST, sampler=sampler)
    first = tuned(request, store)
    again = tuned(request, store, on_trial=forbid)
    assert again == first
    fewer = tuned(replace(request, trials=5), store, on_trial=forbid)
    assert fewer.rows == first.rows


def test_a_resumed_study_equals_an_undisturbed_one(store: Store) -> None:
    whole = tuned(replace(REQUEST, trials=20))
    for trials in (1, 2, 9, 20):
        resumed = tuned(replace(REQUEST, trials=trials), store)
    assert asked(resumed) == asked(whole)
    assert resumed.best is not None
    assert whole.best is not None
    assert resumed.best.candidate == whole.best.candidate


def test_a_space_that_is_searched_through_ends_the_search() -> None:
    for trials in (TINY.size, 1000):
        result = tuned(replace(REQUEST, space=TINY, trials=trials))
        assert result.stopped is Stopped.EXHAUSTED
        assert {row.candidate for row in result.rows} == set(TINY.candidates())


def test_only_trials_of_the_space_count(store: Store) -> None:
    wide = tuned(store=store)
    narrow = replace(REQUEST, space=TINY, trials=10)
    result = tuned(narrow, store)
    assert len(result.rows) == 10
    assert all(row.candidate in TINY for row in result.rows)
    assert result.best in result.rows
    # The untuned candidate has another set size in this space, so the wide one's is not it.
    assert result.baseline is not None
    assert result.baseline.candidate.run.set_size == 2
    known = {row.candidate for row in wide.rows} & set(TINY.candidates())
    assert len(store.rows("study")) == len(wide.rows) + 10 - len(known)


def test_the_baseline_may_come_from_outside_the_space(store: Store) -> None:
    tuned(store=store)
    narrow = space_for(Workflow.THROUGHPUT, STD, Choices(cores=(2,)))
    result = tuned(replace(REQUEST, space=narrow, trials=3), store)
    assert result.baseline == store.rows("study")[0]
    alone = tuned(replace(REQUEST, space=narrow, trials=3))
    assert alone.baseline is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_sha256": "ab" * 32}, f"model sha256 {'cd' * 32}, now it is {'ab' * 32}"),
        ({"workflow": Workflow.LATENCY}, "workflow throughput, now it is latency"),
        ({"batch_symbol": "N"}, "batch symbol batch, now it is N"),
        ({"seed": 4}, "seed 3, now it is 4"),
    ],
)
def test_a_study_of_something_else_is_refused(
    store: Store, change: dict[str, str | int | Workflow], message: str
) -> None:
    before = tuned(store=store)
    with pytest.raises(UsageError, match=f"study study was .*{message}.* give another --study"):
        tuned(replace(REQUEST, **change), store)  # type: ignore[arg-type]  # by field name
    assert store.rows("study") == before.rows


def test_a_study_of_another_card_is_refused(store: Store) -> None:
    tuned(store=store)
    pro = device(Sku.PRO)
    other = replace(REQUEST, device=pro, space=space_for(Workflow.THROUGHPUT, pro))
    with pytest.raises(UsageError, match="SKU std, now it is pro"):
        tuned(other, store)


def test_a_study_of_other_symbols_is_refused(store: Store) -> None:
    tuned(store=store)
    bound = (("seq_len", 128),)
    space = space_for(Workflow.THROUGHPUT, STD, Choices(symbols=bound))
    with pytest.raises(UsageError, match=r"symbols \{\}, now it is \{'seq_len': 128\}"):
        tuned(replace(REQUEST, symbols=bound, space=space), store)


def test_a_study_of_other_input_shapes_is_refused(store: Store) -> None:
    def shaped(side: int) -> TuneRequest:
        given = GivenShape("x", DType.FLOAT32, (1, side, side), (0,))
        space = replace(REQUEST.space, input_shapes=(("x", (1, side, side)),))
        return replace(REQUEST, input_shapes=(given,), space=space)

    first = tuned(shaped(8), store)
    assert {row.candidate.compile.input_shapes for row in first.rows} == {(("x", (1, 8, 8)),)}
    assert tuned(shaped(8), store, on_trial=forbid) == first
    with pytest.raises(UsageError, match="input shapes x=1x8x8, now it is x=1x9x9; results"):
        tuned(shaped(9), store)
    with pytest.raises(UsageError, match="input shapes x=1x8x8, now it is none; results"):
        tuned(REQUEST, store)


def test_a_moved_model_is_the_same_study(store: Store) -> None:
    tuned(store=store)
    moved = replace(REQUEST, model_path=Path("elsewhere/model.onnx"))
    assert tuned(moved, store).study.model_path == "model.onnx"


@pytest.mark.parametrize(
    ("compiler", "backend", "timing_id", "message"),
    [
        (FakeCompiler(version="compiler 2"), None, None, "compiler compiler 1, now it is comp"),
        (None, FakeBackend(version="model 2"), None, "backend model 1, now it is model 2"),
        (None, None, "other", "timing parameters closed form 1, now it is other"),
    ],
)
def test_rows_of_other_tools_are_refused(
    store: Store,
    compiler: FakeCompiler | None,
    backend: FakeBackend | None,
    timing_id: str | None,
    message: str,
) -> None:
    before = tuned(store=store)
    made = toolchain(compiler, backend, timing_id or device_model.PROVENANCE.timing_id)
    with pytest.raises(UsageError, match=f"{message}.* give another --study"):
        tune(replace(REQUEST, trials=20), made, store, ignore)
    assert store.rows("study") == before.rows


def refusing(limit: int) -> FakeCompiler:
    """Refuses batch sizes above `limit`."""

    def trouble(options: CompileOptions) -> None:
        if options.batch_size > limit:
            raise compiler.errors.DoesNotFitError(
                f"batch {options.batch_size} needs more, limit is {limit}"
            )

    return FakeCompiler(trouble=trouble)


def test_what_does_not_fit_is_a_row_and_the_search_goes_on(store: Store) -> None:
    result = tuned(replace(REQUEST, trials=30), store, compiler=refusing(2))
    states = {row.state for row in result.rows}
    assert states == {TrialState.COMPLETE, TrialState.INFEASIBLE}
    for row in store.rows("study"):
        fits = row.candidate.compile.batch_size <= 2
        assert (row.state is TrialState.COMPLETE) == fits
        assert ("limit is 2" in row.reason) != fits
    assert result.best is not None
    assert result.best.candidate.compile.batch_size <= 2


def test_nothing_that_fits_is_infeasible_with_the_most_frequent_reason(store: Store) -> None:
    request = replace(REQUEST, space=TINY, trials=6)
    with pytest.raises(InfeasibleError, match=r"none of 6 trials .* reason of \d: batch .* needs"):
        tuned(request, store, compiler=refusing(0))
    # All that was learned is kept, and learned once.
    assert len(store.rows("study")) == 6
    with pytest.raises(InfeasibleError, match="none of 6"):
        tuned(request, store, compiler=refusing(0), on_trial=forbid)


def test_tools_that_break_on_all_are_a_tool_failure(store: Store) -> None:
    def trouble(options: RunOptions) -> None:
        raise RuntimeError("no such card")

    with pytest.raises(ToolError, match=r"a tool failed: none of 12 .* no such card"):
        tuned(store=store, backend=FakeBackend(trouble=trouble))


def test_one_trial_that_breaks_costs_only_itself() -> None:
    def trouble(options: RunOptions) -> None:
        if options.instances == 7:
            raise RuntimeError("hung")

    result = tuned(backend=FakeBackend(trouble=trouble))
    failed = [row for row in result.rows if row.state is TrialState.FAILED]
    assert failed
    assert all("RuntimeError" in row.reason and "hung" in row.reason for row in failed)
    assert len(result.rows) == 12


def unsupported(options: CompileOptions) -> None:
    raise UnsupportedError("node Foo of opset 17 is unknown")


def test_a_model_that_never_compiles_ends_the_search_without_a_trace(store: Store) -> None:
    with pytest.raises(UnsupportedError, match="node Foo"):
        tuned(store=store, compiler=FakeCompiler(trouble=unsupported))
    assert store.studies() == ()


def test_a_model_that_compiles_at_batch_one_alone_is_tuned_at_batch_one() -> None:
    def trouble(options: CompileOptions) -> None:
        if options.batch_size > 1:
            unsupported(options)

    result = tuned(replace(REQUEST, trials=25), compiler=FakeCompiler(trouble=trouble))
    assert len(result.rows) == 25
    for row in result.rows:
        good = row.candidate.compile.batch_size == 1
        assert row.state is (TrialState.COMPLETE if good else TrialState.INFEASIBLE)
        assert good or "node Foo" in row.reason


def test_the_first_interrupt_lets_the_trial_in_hand_finish(store: Store) -> None:
    def trouble(options: RunOptions) -> None:
        if len(backend.ran) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    backend = FakeBackend(trouble=trouble)
    result = tuned(store=store, backend=backend)
    assert result.stopped is Stopped.INTERRUPTED
    assert len(result.rows) == len(store.rows("study")) == 4
    assert result.rows[3].state is TrialState.COMPLETE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    rest = tuned(store=store)
    assert asked(rest) == asked(tuned())


def test_the_second_interrupt_drops_the_trial_in_hand(store: Store) -> None:
    def trouble(options: RunOptions) -> None:
        if len(backend.ran) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    backend = FakeBackend(trouble=trouble)
    result = tuned(store=store, backend=backend)
    assert result.stopped is Stopped.INTERRUPTED
    assert len(result.rows) == len(store.rows("study")) == 3
    assert asked(tuned(store=store)) == asked(tuned())


def test_an_interrupt_before_anything_is_complete_has_no_best(store: Store) -> None:
    def trouble(options: RunOptions) -> None:
        raise KeyboardInterrupt

    result = tuned(store=store, backend=FakeBackend(trouble=trouble))
    assert (result.stopped, result.best, result.rows) == (Stopped.INTERRUPTED, None, ())


def test_another_interrupt_handler_is_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        ours = signal.getsignal(signal.SIGINT)
        result = tuned(on_trial=lambda row: os.kill(os.getpid(), signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is ours
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped is Stopped.BUDGET
    assert len(seen) == 12


def test_another_process_in_the_same_study_is_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    mine, theirs = open_store(url, create=True), open_store(url, create=True)

    def on_trial(row: TrialRow) -> None:
        if row.number == 3:
            tuned(replace(REQUEST, trials=6), theirs)

    with pytest.raises(StoreError, match="candidate of trial 6 already, as trial 4; is another"):
        tuned(store=mine, on_trial=on_trial)
    assert len(theirs.rows("study")) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials is 0, must be 1 or more"),
        ({"study": ""}, "--study '': must be 1 to 200 printable"),
        ({"study": "a\nb"}, r"--study 'a\\nb': must be"),
        ({"study": "x" * 201}, "must be 1 to 200 printable"),
        ({"study": "a\udc80"}, r"--study 'a\\udc80': must be"),
        ({"model_path": Path("a\udc80.onnx")}, "rename the model file"),
    ],
    ids=["trials", "empty", "line break", "long", "surrogate", "path"],
)
def test_requests_that_cannot_be_are_refused(
    store: Store, change: dict[str, int | str | Path], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        tuned(replace(REQUEST, **change), store)  # type: ignore[arg-type]  # by field name
    assert isinstance(caught.value, ConfiguratorError)
    assert store.studies() == ()


@pytest.mark.parametrize("name", ["résnet 50 模型", "a" * 200, "'; DROP TABLE trials; --", "%s"])
def test_odd_names_are_names(store: Store, name: str) -> None:
    result = tuned(replace(REQUEST, study=name, trials=2), store)
    assert result.rows == store.rows(name)


def test_a_request_of_parts_that_do_not_belong_together_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="different devices"):
        tune(replace(REQUEST, device=device(Sku.PRO)), toolchain(), MemoryStore(), ignore)
    with pytest.raises(ValueError, match="different symbols"):
        tuned(replace(REQUEST, symbols=(("seq", 1),)))
    with pytest.raises(ValueError, match="different input shapes"):
        tuned(replace(REQUEST, input_shapes=(GivenShape("x", DType.BOOL, (1,), ()),)))


def test_least_latency_is_tuned_over_all_its_points() -> None:
    space = space_for(Workflow.LATENCY, STD)
    result = tuned(replace(REQUEST, workflow=Workflow.LATENCY, space=space, trials=100))
    assert result.stopped is Stopped.EXHAUSTED
    assert result.best is not None
    assert result.best.measurement is not None
    least = min(device_model.measure(asked).latency.mean_s for asked in space.candidates())
    assert result.best.measurement.latency.mean_s <= 1.001 * least
