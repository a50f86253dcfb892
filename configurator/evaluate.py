"""One candidate in, one outcome out."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import TypeAlias, TypeVar

import compiler.errors
import runtime_sim.errors
from compiler.errors import ModelError, ModelFileError, OptionError, SymbolError, UnsupportedError
from compiler.options import CompileOptions
from compiler.options import violations as compile_violations
from configurator.errors import ToolError
from configurator.records import Candidate, TrialState
from configurator.toolchain import Toolchain
from runtime_sim.errors import RunOptionError
from runtime_sim.measurement import Measurement
from runtime_sim.options import violations as run_violations

P = TypeVar("P")

# assumed: more than a search alternates between; a program is a few megabytes.
PROGRAMS_KEPT = 16

# Defects of the input: no candidate can do anything about them.
MODEL_DEFECTS = (ModelFileError, ModelError, SymbolError, UnsupportedError)

_REFUSED_BY_COMPILER = (compiler.errors.DoesNotFitError, OptionError)
_REFUSED_BY_DEVICE = (runtime_sim.errors.DoesNotFitError, RunOptionError)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a `TrialRow` says of its candidate, with the same invariants."""

    state: TrialState
    measurement: Measurement | None
    reason: str


Evaluate: TypeAlias = Callable[[Candidate], Outcome]


def evaluator(toolchain: Toolchain[P], model_path: Path) -> Evaluate:
    """A function that compiles and runs candidates of one model; see `Outcome`.

    It raises for what is no fault of the candidate, one of `MODEL_DEFECTS`, or `ToolError` where
    the system refuses a file; everything else becomes an outcome. The last few programs are kept,
    so that candidates which differ in run options alone are compiled once.
    """
    compiled = lru_cache(PROGRAMS_KEPT)(partial(_compile, toolchain, model_path))
    return partial(_evaluate, toolchain, compiled)


def infeasible(reason: str) -> Outcome:
    """The outcome of a candidate that cannot run on this card."""
    return Outcome(TrialState.INFEASIBLE, None, _one_line(reason) or "no reason given")


def _evaluate(
    toolchain: Toolchain[P],
    compiled: Callable[[CompileOptions], P | Outcome],
    candidate: Candidate,
) -> Outcome:
    reasons = _violations(toolchain, candidate)
    if reasons:
        return infeasible("; ".join(reasons))
    try:
        program = compiled(candidate.compile)
        if isinstance(program, Outcome):
            return program
        return _outcome(toolchain.backend.run(program, candidate.run))
    except _REFUSED_BY_DEVICE as error:
        return infeasible(str(error))
    except MODEL_DEFECTS:
        raise
    except OSError as error:
        raise ToolError(
            _one_line(f"{error}; free or name a folder that can be written")
        ) from error
    # The one place that catches everything: a tool that breaks on one candidate must not cost a
    # study the others. The row keeps what broke and where.
    except Exception as error:
        return _failed(error)


def _compile(toolchain: Toolchain[P], model_path: Path, options: CompileOptions) -> P | Outcome:
    """A refusal is a result like a program: no instances and no set size can change it."""
    try:
        return toolchain.compiler.compile(model_path, options, toolchain.device)
    except _REFUSED_BY_COMPILER as error:
        return infeasible(str(error))


def _violations(toolchain: Toolchain[P], candidate: Candidate) -> tuple[str, ...]:
    chosen, device = candidate.compile, toolchain.device
    return (
        *compile_violations(chosen, device),
        *run_violations(candidate.run, chosen.num_cores, device),
    )


def _outcome(measured: Measurement) -> Outcome:
    """A measurement that measured nothing is a failure of the backend."""
    times = (measured.duration_s, *astuple(measured.latency))
    counts = (measured.inferences, measured.batch_size)
    if not all(isfinite(time) and time > 0 for time in times) or min(counts) < 1:
        return Outcome(TrialState.FAILED, None, f"the backend measured nonsense: {measured}")
    return Outcome(TrialState.COMPLETE, measured, "")


def _failed(error: Exception) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
    return Outcome(
        TrialState.FAILED, None, _one_line(f"{type(error).__name__} at {place}: {error}")
    )


def _one_line(text: str) -> str:
    """Without line breaks, and of characters that every database can hold."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
