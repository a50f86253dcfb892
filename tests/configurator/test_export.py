"""The vendor commands: exact text for one trial, and properties for all."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator import export
from configurator.errors import InfeasibleError, UsageError
from configurator.records import TrialRow, Workflow
from tests.configurator import view_rows

# What a command line can carry: no NUL byte.
ARGUMENT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
SPLIT = st.none() | st.integers(min_value=1, max_value=16)


def test_lines_of_a_trial_are_pinned() -> None:
    """A pin, not a proof: the flags and their order are those of the vendor's tuning page."""
    row = view_rows.complete(3, view_rows.candidate(), 6300.0, 0.044)
    found = export.commands(view_rows.study(), row)
    assert export.shell_text(found).splitlines() == [
        "/opt/qti-aic/exec/qaic-exec -v -aic-hw -aic-hw-version=2.0 -m=models/resnet50.onnx "
        "-onnx-define-symbol=batch,4 -aic-num-cores=2 -ols=1 -mos=1 -multicast-weights "
        "-convert-to-fp16 -stats-batchsize=4 "
        "-aic-binary-dir=qpc-resnet50-throughput-trial-3 -compile-only",
        "/opt/qti-aic/exec/qaic-runner -t qpc-resnet50-throughput-trial-3 "
        "-a 7 -S 10 -T 4 --time 20",
    ]


def test_a_model_without_batch_symbol_gets_batchsize() -> None:
    """The batch size reaches the compiler either as a symbol or as -batchsize, never both."""
    row = view_rows.complete(0, view_rows.candidate(symbols=(("seq_len", 128),)), 1.0, 1.0)
    argv = export.commands(view_rows.study(batch_symbol=None), row).compile
    assert "-batchsize=4" in argv
    assert [word for word in argv if word.startswith("-onnx-define-symbol")] == [
        "-onnx-define-symbol=seq_len,128"
    ]


def test_weights_that_are_not_multicast_drop_the_flag() -> None:
    """A bare flag cannot say no, so its absence does."""
    row = view_rows.complete(0, view_rows.candidate(multicast_weights=False), 1.0, 1.0)
    assert "-multicast-weights" not in export.commands(view_rows.study(), row).compile


@given(ols=SPLIT, mos=SPLIT)
def test_splits_are_those_of_the_trial(ols: int | None, mos: int | None) -> None:
    """A set value is exported as it is, an unset one only as a comment."""
    row = view_rows.complete(0, view_rows.candidate(cores=16, ols=ols, mos=mos), 1.0, 1.0)
    found = export.commands(view_rows.study(), row)
    for name, value in (("ols", ols), ("mos", mos)):
        given_flags = [word for word in found.compile if word.startswith(f"-{name}=")]
        assert given_flags == ([] if value is None else [f"-{name}={value}"])
        commented = f"# -{name}= left to the compiler" in export.shell_text(found)
        assert commented == (value is None)


@given(path=ARGUMENT, name=ARGUMENT, symbol=ARGUMENT)
def test_lines_split_back_into_the_arguments(path: str, name: str, symbol: str) -> None:
    """Whatever the names hold, a shell sees the same words."""
    study = view_rows.study(name=name, model_path=path, batch_symbol=symbol)
    found = export.commands(study, view_rows.complete(0, view_rows.candidate(), 1.0, 1.0))
    document = export.document(study, found)
    assert shlex.split(str(document["compile_line"])) == list(found.compile)
    assert shlex.split(str(document["run_line"])) == list(found.run)
    assert f"-m={path}" in found.compile


@pytest.mark.parametrize("path", ["a b.onnx", "it's.onnx", "$(x);`y`.onnx", "línea\n2.onnx", "*"])
def test_a_real_shell_agrees(path: str) -> None:
    """The oracle is /bin/sh: it prints the words that it would pass."""
    found = export.commands(
        view_rows.study(model_path=path), view_rows.complete(0, view_rows.candidate(), 1.0, 1.0)
    )
    line = export.document(view_rows.study(), found)["compile_line"]
    printed = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    ).stdout.decode()
    assert tuple(printed.split("\0")[:-1]) == found.compile


@given(first=ARGUMENT, second=ARGUMENT, number=st.integers(min_value=0))
def test_binary_directories_are_safe_and_distinct(first: str, second: str, number: int) -> None:
    """One plain path segment per study and trial."""
    made = export.binary_directory(first, number)
    assert shlex.quote(made) == made
    assert "/" not in made
    assert len(made) < 200
    assert (made == export.binary_directory(second, number)) == (first == second)


def test_document_is_json() -> None:
    """Every value survives a round trip."""
    study = view_rows.study()
    row = view_rows.complete(0, view_rows.candidate(), 1.0, 1.0)
    document = export.document(study, export.commands(study, row))
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(("workflow", "number"), [(Workflow.THROUGHPUT, 4), (Workflow.LATENCY, 0)])
def test_the_best_trial_is_chosen_where_none_is_named(workflow: Workflow, number: int) -> None:
    """By eye: trial 4 has the highest rate, trial 0 the lowest latency."""
    study = view_rows.study(workflow=workflow)
    assert export.chosen(study, view_rows.small_study_rows(), None).number == number


def test_a_named_trial_is_chosen() -> None:
    assert export.chosen(view_rows.study(), view_rows.small_study_rows(), 2).number == 2


@pytest.mark.parametrize(
    ("number", "said"),
    [(7, "has no trial 7; it has 0 to 6"), (6, "trial 6 is infeasible: Conv_1")],
)
def test_a_trial_that_cannot_be_exported_is_a_usage_error(number: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        export.chosen(view_rows.study(), view_rows.small_study_rows(), number)


@pytest.mark.parametrize("rows", [(), view_rows.small_study_rows()[-1:]])
def test_without_a_complete_trial_nothing_is_feasible(rows: tuple[TrialRow, ...]) -> None:
    with pytest.raises(InfeasibleError, match="resnet50-throughput"):
        export.chosen(view_rows.study(), rows, None)
