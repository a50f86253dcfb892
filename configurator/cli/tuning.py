"""Behind `configurator tune`: from arguments to a search, from a result to a report."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.errors import DoesNotFitError
from compiler.target import Sku, device
from configurator import export, objective, tables
from configurator.cli.progress import progress, said_when_slow
from configurator.records import GivenShape, Workflow
from configurator.search import Sampler
from configurator.space import Choices, SearchSpace, space_for
from configurator.store import Store, open_store
from configurator.toolchain import Toolchain, simulated
from configurator.tune import Stopped, TuneRequest, TuneResult, tune
from runtime_sim.errors import DeviceError
from runtime_sim.options import RunOptions

if TYPE_CHECKING:
    from compiler.driver import ModelFacts, ModelInput
    from compiler.program import Program

RUNNERS_UP = 5

# assumed: a name that still fits a line; the store takes longer ones.
_LONGEST_STEM = 100


_EXPLANATIONS = {
    Stopped.BUDGET: "all trials asked for are done; a larger --trials goes on from here",
    Stopped.EXHAUSTED: "every candidate of the space has been tried",
    Stopped.INTERRUPTED: "the same command goes on from here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user typed, read but not yet held against the model."""

    model: Path
    workflow: Workflow
    sku: Sku
    trials: int
    study: str | None
    storage: str
    choices: Choices
    batch_symbol: str | None
    sampler: Sampler
    seed: int
    cache_dir: Path | None


def search(asked: Asked, *, quiet: bool) -> TuneResult:
    """Run the search; nothing is written before the model has been compiled once."""
    space = space_for(asked.workflow, device(asked.sku), asked.choices)
    request = _request(asked, space)
    toolchain = simulated(request.device, asked.cache_dir, asked.batch_symbol)
    _try_first(request, toolchain, quiet=quiet)
    store = open_store(asked.storage, create=True)
    total = min(request.trials, space.size) - _held(request, store)
    with progress(asked.workflow, max(0, total), quiet=quiet) as on_trial:
        return tune(request, toolchain, store, on_trial)


def outcome(result: TuneResult) -> tables.Outcome:
    """`result` as it is shown."""
    ranked = objective.ranked(result.rows, result.study.workflow)
    return tables.Outcome(
        study=result.study,
        rows=result.rows,
        best=result.best,
        runners_up=ranked[1 : 1 + RUNNERS_UP],
        baseline=result.baseline,
        front=result.front,
        stopped=result.stopped.value,
        explanation=_EXPLANATIONS[result.stopped],
    )


def report(result: TuneResult, asked: Asked) -> str:
    """The text at the end: results, why it ended, the vendor's commands, what to type next."""
    parts = [tables.outcome_text(outcome(result))]
    if result.best is not None:
        commands = export.commands(result.study, result.best)
        parts += ["", "On a card, the best is:", export.shell_text(commands)]
        parts += ["", "Next:", *_next_commands(result.study.name, asked.storage)]
    return "\n".join(parts)


def resume_hint(result: TuneResult) -> str:
    """What to say of a search that Ctrl-C ended."""
    stored = f"{len(result.rows)} trials of study {result.study.name} are stored"
    return f"interrupted: {stored}; the same command goes on from there"


def _request(asked: Asked, space: SearchSpace) -> TuneRequest:
    from compiler.driver import describe

    facts = describe(asked.model, asked.batch_symbol)
    given = _given_shapes(facts, asked.choices.input_shapes)
    symbols = _symbols(facts, asked.choices.symbols, given)
    return TuneRequest(
        study=asked.study or default_study_name(asked.model, asked.workflow),
        model_path=asked.model,
        model_sha256=facts.sha256,
        batch_symbol=facts.batch_symbol,
        symbols=symbols,
        input_shapes=given,
        workflow=asked.workflow,
        device=device(asked.sku),
        seed=asked.seed,
        trials=asked.trials,
        space=replace(space, symbols=symbols),
        sampler=asked.sampler,
    )


def _given_shapes(
    facts: ModelFacts, shapes: tuple[tuple[str, tuple[int, ...]], ...]
) -> tuple[GivenShape, ...]:
    """Those of inputs that the model has; the compiler refuses the others by name."""
    declared = {item.name: item for item in facts.inputs}
    return tuple(
        GivenShape(name, declared[name].dtype, extents, _batch_dims(facts, declared[name]))
        for name, extents in shapes
        if name in declared
    )


def _batch_dims(facts: ModelFacts, item: ModelInput) -> tuple[int, ...]:
    named = {
        at
        for at, dim in enumerate(item.dims or ())
        if dim is not None and dim == facts.batch_symbol
    }
    leads = facts.batch_is_open and item.dims != ()
    return tuple(sorted(named | ({0} if leads else set())))


def _symbols(
    facts: ModelFacts, typed: tuple[tuple[str, int], ...], given: tuple[GivenShape, ...]
) -> tuple[tuple[str, int], ...]:
    """Those typed, and those that follow from a given shape, which `qaic-exec` must be told."""
    found = dict(typed)
    for shape in given:
        dims = next(item.dims for item in facts.inputs if item.name == shape.input)
        for dim, extent in zip(dims or (), shape.extents, strict=False):
            if isinstance(dim, str) and dim in facts.symbols:
                found.setdefault(dim, extent)
    return tuple(sorted(found.items()))


def default_study_name(model: Path, workflow: Workflow) -> str:
    """Like `resnet50-throughput`."""
    return f"{model.stem[:_LONGEST_STEM]}-{workflow.value}"


def _try_first(request: TuneRequest, toolchain: Toolchain[Program], *, quiet: bool) -> None:
    """Let a model that cannot be compiled end the command before a database is made.

    The search would find out as well, and finds this program in the cache. Running it once lets
    the simulator build its loops, which must not count as a trial's time.
    """
    starts = request.space.starts(request.workflow)
    first = starts[0] if starts else request.space.candidate((0, 0, 0))
    once = RunOptions(instances=1, set_size=1, inferences=1)
    told = "preparing the simulator (once after an installation)"
    # Candidates that do not fit leave others that may.
    with said_when_slow(told, quiet=quiet), suppress(DoesNotFitError, DeviceError):
        program = toolchain.compiler.compile(request.model_path, first.compile, request.device)
        toolchain.backend.run(program, once)


def _held(request: TuneRequest, store: Store) -> int:
    """How many trials of the space the store holds already."""
    if request.study not in {study.name for study in store.studies()}:
        return 0
    return sum(row.candidate in request.space for row in store.rows(request.study))


def _next_commands(study: str, storage: str) -> list[str]:
    common = [study, "--storage", storage]
    commands = (
        ["configurator", "plot", *common, "--out", "plots"],
        ["configurator", "trials", *common],
        ["configurator", "export", *common, "--trial", "N"],
    )
    return [shlex.join(command) for command in commands]
