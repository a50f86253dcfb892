"""Every way a candidate can end, and what ends a study instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import compiler.errors
import runtime_sim.errors
from compiler.errors import (
    CompileError,
    ModelError,
    ModelFileError,
    OptionError,
    QpcError,
    SymbolError,
    UnsupportedError,
)
from compiler.options import CompileOptions
from configurator.errors import ToolError
from configurator.evaluate import PROGRAMS_KEPT, Outcome, evaluator
from configurator.records import Candidate, TrialState
from configurator.toolchain import Toolchain
from runtime_sim.errors import DeviceError, RunOptionError
from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions
from tests.configurator import device_model
from tests.configurator.fakes import (
    STD,
    BrokenBackend,
    FakeBackend,
    FakeCompiler,
    toolchain,
)

MODEL = Path("model.onnx")
POINT = Candidate(CompileOptions(num_cores=2), RunOptions(instances=7))


def raising(error: Exception) -> FakeCompiler:
    def trouble(options: CompileOptions) -> None:
        raise error

    return FakeCompiler(trouble=trouble)


def raising_backend(error: Exception) -> FakeBackend:
    def trouble(options: RunOptions) -> None:
        raise error

    return FakeBackend(trouble=trouble)


def test_a_candidate_that_runs_is_complete() -> None:
    outcome = evaluator(toolchain(), MODEL)(POINT)
    assert outcome == Outcome(TrialState.COMPLETE, device_model.measure(POINT), "")


@pytest.mark.parametrize(
    "error",
    [
        compiler.errors.DoesNotFitError("needs 9 MiB of VTCM, has 8 MiB; raise cores"),
        OptionError("mos is 3, must be 1"),
    ],
)
def test_what_the_compiler_refuses_is_infeasible_and_asked_once(error: CompileError) -> None:
    fake = raising(error)
    evaluate = evaluator(toolchain(fake), MODEL)
    for set_size in (1, 5, 10):
        outcome = evaluate(replace(POINT, run=replace(POINT.run, set_size=set_size)))
        assert outcome == Outcome(TrialState.INFEASIBLE, None, str(error))
    assert len(fake.compiled) == 1


@pytest.mark.parametrize(
    "error",
    [
        runtime_sim.errors.DoesNotFitError("7 instances need 17 GB, std has 16 GB"),
        RunOptionError("set size is 300, must be 256 or less"),
    ],
)
def test_what_the_device_refuses_is_infeasible(error: DeviceError) -> None:
    outcome = evaluator(toolchain(backend=raising_backend(error)), MODEL)(POINT)
    assert outcome == Outcome(TrialState.INFEASIBLE, None, str(error))


def test_what_the_card_cannot_have_is_infeasible_without_a_tool() -> None:
    fake = FakeCompiler()
    evaluate = evaluator(toolchain(fake), MODEL)
    outcome = evaluate(Candidate(CompileOptions(num_cores=3, mos=4), RunOptions(instances=5)))
    assert outcome.state is TrialState.INFEASIBLE
    assert "mos is 4" in outcome.reason
    assert "3 cores x 5 instances = 15, std has 14 NSPs" in outcome.reason
    assert fake.compiled == []


@pytest.mark.parametrize("kind", [ModelFileError, ModelError, SymbolError, UnsupportedError])
def test_a_defect_of_the_model_is_raised(kind: type[CompileError]) -> None:
    with pytest.raises(kind, match="node Foo"):
        evaluator(toolchain(raising(kind("node Foo"))), MODEL)(POINT)


@pytest.mark.parametrize(
    "error",
    [
        QpcError("cut off"),
        CompileError("stopped"),
        DeviceError("lost the card"),
        IndexError("out of range"),
        RecursionError("too deep"),
        MemoryError("no room"),
        AssertionError("a\nb"),
        ValueError("\udc80 bytes"),
        ValueError(""),
    ],
    ids=repr,
)
def test_a_tool_that_breaks_fails_the_trial_and_says_where(error: Exception) -> None:
    for broken in (toolchain(raising(error)), toolchain(backend=raising_backend(error))):
        outcome = evaluator(broken, MODEL)(POINT)
        assert outcome.state is TrialState.FAILED
        assert outcome.measurement is None
        assert outcome.reason.startswith(f"{type(error).__name__} at test_evaluate.py:")
        assert "\n" not in outcome.reason
        outcome.reason.encode("utf-8")


def test_a_tool_that_broke_is_tried_again() -> None:
    fake = raising(MemoryError())
    evaluate = evaluator(toolchain(fake), MODEL)
    evaluate(POINT)
    evaluate(POINT)
    assert len(fake.compiled) == 2


def test_a_file_that_the_system_refuses_ends_the_study() -> None:
    error = PermissionError(13, "Permission denied", "/cache/program.bin")
    with pytest.raises(ToolError, match=r"Permission denied: '/cache/program.bin'; free or name"):
        evaluator(toolchain(raising(error)), MODEL)(POINT)


def test_an_interrupt_is_not_an_outcome() -> None:
    def trouble(options: CompileOptions) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluator(toolchain(FakeCompiler(trouble=trouble)), MODEL)(POINT)


SOUND = device_model.measure(POINT)


@pytest.mark.parametrize(
    "measured",
    [
        replace(SOUND, duration_s=0.0),
        replace(SOUND, duration_s=float("inf")),
        replace(SOUND, duration_s=float("nan")),
        replace(SOUND, inferences=0),
        replace(SOUND, latency=replace(SOUND.latency, p99_s=float("nan"))),
        replace(SOUND, latency=replace(SOUND.latency, mean_s=-1.0)),
    ],
)
def test_a_measurement_of_nothing_is_a_failure(measured: Measurement) -> None:
    broken = Toolchain(
        compiler=FakeCompiler(), backend=BrokenBackend(measured), device=STD, timing_id="t"
    )
    outcome = evaluator(broken, MODEL)(POINT)
    assert outcome.state is TrialState.FAILED
    assert "nonsense" in outcome.reason


def test_one_program_serves_all_instances_and_set_sizes() -> None:
    fake = FakeCompiler()
    evaluate = evaluator(toolchain(fake), MODEL)
    for instances in (1, 4, 7):
        for set_size in (1, 10):
            evaluate(Candidate(POINT.compile, RunOptions(instances=instances, set_size=set_size)))
    assert fake.compiled == [POINT.compile]


def test_only_the_last_programs_are_kept() -> None:
    fake = FakeCompiler()
    evaluate = evaluator(toolchain(fake), MODEL)
    options = [CompileOptions(num_cores=1, batch_size=1 + n) for n in range(PROGRAMS_KEPT + 1)]
    for chosen in (*options, options[-1], options[0]):
        evaluate(Candidate(chosen, RunOptions(instances=1)))
    assert fake.compiled == [*options, options[0]]
