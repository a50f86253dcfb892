"""The search loop: ask, evaluate, store, tell; resume; stop."""

from __future__ import annotations

import platform
import signal
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TypeVar

from compiler.errors import ModelFileError
from compiler.target import DeviceSpec
from configurator import objective
from configurator.errors import ConfiguratorError, InfeasibleError, ToolError, UsageError
from configurator.evaluate import MODEL_DEFECTS, Evaluate, Outcome, evaluator, infeasible
from configurator.records import (
    Candidate,
    GivenShape,
    Provenance,
    Study,
    TrialRow,
    TrialState,
    Workflow,
)
from configurator.search import Sampler, searcher
from configurator.space import SearchSpace
from configurator.store import Store
from configurator.toolchain import Toolchain
from configurator.version import __version__

P = TypeVar("P")

# assumed: longer than a title, shorter than what any database indexes.
LONGEST_NAME = 200


class Stopped(Enum):
    """Why a search ended."""

    BUDGET = "budget"
    EXHAUSTED = "space exhausted"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """What to search.

    `trials` is how many distinct trials of `space` the study shall hold in the end, those of
    earlier runs included. `model_sha256` and `batch_symbol` are facts of the model at
    `model_path`; `input_shapes` are those of `space`, held against the model.
    """

    study: str
    model_path: Path
    model_sha256: str
    batch_symbol: str | None
    symbols: tuple[tuple[str, int], ...]
    input_shapes: tuple[GivenShape, ...] = ()
    workflow: Workflow
    device: DeviceSpec
    seed: int
    trials: int
    space: SearchSpace
    sampler: Sampler = Sampler.TPE


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What was found: the study's trials of the requested space, by number, and what stands out.

    `best` is None only when the search was interrupted before any trial was complete. `baseline`
    is the trial of the untuned candidate; None when neither this space nor the study holds it.
    """

    study: Study
    rows: tuple[TrialRow, ...]
    best: TrialRow | None
    baseline: TrialRow | None
    front: tuple[TrialRow, ...]
    stopped: Stopped


def tune(
    request: TuneRequest,
    toolchain: Toolchain[P],
    store: Store,
    on_trial: Callable[[TrialRow], None],
) -> TuneResult:
    """Search until the study holds `request.trials` trials of the space, or all of it.

    A study of that name is resumed. `on_trial` sees each new row once it is stored. Ctrl-C lets
    the trial in hand finish; a second one drops it. Raises `UsageError` where the request
    contradicts itself or the stored study, `InfeasibleError` where all trials are infeasible,
    `ToolError` where none is complete and a tool failed, and what `evaluator` raises.
    """
    _refuse_contradictions(request, toolchain)
    notebook = _opened(request, store)
    provenance = _provenance(request, toolchain)
    _refuse_other_tools(notebook.rows, provenance)
    evaluate = evaluator(toolchain, request.model_path)
    trial = partial(_trial, evaluate, provenance, request.study)
    stopped = _search(request, notebook, trial, on_trial)
    return _result(request, notebook, stopped)


@dataclass(slots=True)
class _Notebook:
    """One study on its way into the store: it is made there together with its first row.

    So a model that cannot be compiled at all leaves no trace.
    """

    study: Study
    store: Store
    is_stored: bool
    rows: list[TrialRow]

    @property
    def next_number(self) -> int:
        return self.store.next_number(self.study.name) if self.is_stored else 0

    def add(self, row: TrialRow) -> None:
        if not self.is_stored:
            self.store.create_study(self.study)
            self.is_stored = True
        self.store.add(row)
        self.rows.append(row)


def _opened(request: TuneRequest, store: Store) -> _Notebook:
    known = next((study for study in store.studies() if study.name == request.study), None)
    if known is None:
        return _Notebook(_new_study(request), store, False, [])
    _refuse_other_study(known, request)
    return _Notebook(known, store, True, list(store.rows(known.name)))


def _search(
    request: TuneRequest,
    notebook: _Notebook,
    trial: Callable[[int, Candidate, bool], TrialRow],
    on_trial: Callable[[TrialRow], None],
) -> Stopped:
    """Why the search ended; the new rows are in the notebook."""
    found = searcher(request.sampler, request.space, request.workflow, request.seed)
    for row in notebook.rows:
        found.tell(row)
    done = len(_of_space(request, notebook.rows))
    try:
        with _first_interrupt() as interrupted:
            while not interrupted.is_set():
                candidate = found.ask() if done < request.trials else None
                if candidate is None:
                    return Stopped.EXHAUSTED if done == request.space.size else Stopped.BUDGET
                row = trial(notebook.next_number, candidate, _any_complete(notebook.rows))
                notebook.add(row)
                found.tell(row)
                done += 1
                on_trial(row)
    except KeyboardInterrupt:
        pass
    return Stopped.INTERRUPTED


def _trial(
    evaluate: Evaluate,
    provenance: Provenance,
    study: str,
    number: int,
    candidate: Candidate,
    model_is_good: bool,
) -> TrialRow:
    started_at, began_s = datetime.now(UTC), time.perf_counter()
    outcome = _outcome(evaluate, candidate, model_is_good)
    return TrialRow(
        study=study,
        number=number,
        candidate=candidate,
        state=outcome.state,
        measurement=outcome.measurement,
        reason=outcome.reason,
        provenance=provenance,
        started_at=started_at,
        wall_s=time.perf_counter() - began_s,
    )


def _outcome(evaluate: Evaluate, candidate: Candidate, model_is_good: bool) -> Outcome:
    """A model that was compiled before is no defect: this batch size is what it cannot have."""
    try:
        return evaluate(candidate)
    except MODEL_DEFECTS as error:
        if isinstance(error, ModelFileError) or not model_is_good:
            raise
        return infeasible(str(error))


@contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """The event is set by the first Ctrl-C; the second one is a `KeyboardInterrupt` as ever.

    Where Ctrl-C means something else already, or another thread than the main one searches, it is
    left alone.
    """
    interrupted = threading.Event()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _result(request: TuneRequest, notebook: _Notebook, stopped: Stopped) -> TuneResult:
    rows = _of_space(request, notebook.rows)
    best = objective.best(rows, request.workflow)
    if best is None and stopped is not Stopped.INTERRUPTED:
        raise _nothing_complete(rows)
    untuned = request.space.baseline(request.workflow)
    return TuneResult(
        study=notebook.study,
        rows=rows,
        best=best,
        baseline=next((row for row in notebook.rows if row.candidate == untuned), None),
        front=objective.pareto_front(rows),
        stopped=stopped,
    )


def _nothing_complete(rows: tuple[TrialRow, ...]) -> ConfiguratorError:
    failed = [row.reason for row in rows if row.state is TrialState.FAILED]
    reasons = failed or [row.reason for row in rows]
    reason, count = Counter(reasons).most_common(1)[0]
    kind = "a tool failed" if failed else "no configuration is feasible"
    text = f"{kind}: none of {len(rows)} trials is complete; reason of {count}: {reason}"
    return ToolError(text) if failed else InfeasibleError(text)


def _of_space(request: TuneRequest, rows: list[TrialRow]) -> tuple[TrialRow, ...]:
    return tuple(row for row in rows if row.candidate in request.space)


def _any_complete(rows: list[TrialRow]) -> bool:
    return any(row.state is TrialState.COMPLETE for row in rows)


def _new_study(request: TuneRequest) -> Study:
    return Study(
        name=request.study,
        model_path=str(request.model_path),
        model_sha256=request.model_sha256,
        batch_symbol=request.batch_symbol,
        symbols=request.symbols,
        input_shapes=request.input_shapes,
        sku=request.device.sku,
        workflow=request.workflow,
        seed=request.seed,
        created_at=datetime.now(UTC),
    )


def _provenance(request: TuneRequest, toolchain: Toolchain[P]) -> Provenance:
    return Provenance(
        model_sha256=request.model_sha256,
        sku=request.device.sku,
        compiler_version=toolchain.compiler.version,
        backend_version=toolchain.backend.version,
        timing_id=toolchain.timing_id,
        configurator_version=__version__,
        seed=request.seed,
        host=platform.node(),
    )


def _refuse_contradictions(request: TuneRequest, toolchain: Toolchain[P]) -> None:
    if request.device != toolchain.device or request.space.nsps != request.device.nsps:
        raise ValueError("request, space and toolchain are of different devices")
    if request.symbols != request.space.symbols:
        raise ValueError("request and space bind different symbols")
    shapes = tuple((shape.input, shape.extents) for shape in request.input_shapes)
    if shapes != request.space.input_shapes:
        raise ValueError("request and space give different input shapes")
    if request.trials < 1:
        raise UsageError(f"trials is {request.trials}, must be 1 or more")
    name, path = request.study, str(request.model_path)
    if not _is_storable(name) or not 1 <= len(name) <= LONGEST_NAME:
        raise UsageError(f"--study {name!a}: must be 1 to {LONGEST_NAME} printable characters")
    if not _is_storable(path):
        raise UsageError(f"{path!a}: this name cannot be stored; rename the model file")


def _is_storable(text: str) -> bool:
    """Whether every database and every terminal can hold `text`: no controls, no surrogates."""
    return all(unicodedata.category(letter) not in {"Cc", "Cs"} for letter in text)


def _refuse_other_study(study: Study, request: TuneRequest) -> None:
    facts = (
        ("model sha256", study.model_sha256, request.model_sha256),
        ("SKU", study.sku.value, request.device.sku.value),
        ("workflow", study.workflow.value, request.workflow.value),
        ("batch symbol", study.batch_symbol, request.batch_symbol),
        ("symbols", dict(study.symbols), dict(request.symbols)),
        ("input shapes", _listed(study.input_shapes), _listed(request.input_shapes)),
        ("seed", study.seed, request.seed),
    )
    _refuse_difference(study.name, facts)


def _listed(shapes: tuple[GivenShape, ...]) -> str:
    return ", ".join(map(str, shapes)) or "none"


def _refuse_other_tools(rows: list[TrialRow], now: Provenance) -> None:
    for row in rows:
        then = row.provenance
        facts = (
            ("compiler", then.compiler_version, now.compiler_version),
            ("backend", then.backend_version, now.backend_version),
            ("timing parameters", then.timing_id, now.timing_id),
        )
        _refuse_difference(row.study, facts)


def _refuse_difference(name: str, facts: Iterable[tuple[str, object, object]]) -> None:
    for what, then, now in facts:
        if then != now:
            raise UsageError(
                f"study {name} was made with {what} {then}, now it is {now}; results of the two "
                "do not compare: give another --study name"
            )
