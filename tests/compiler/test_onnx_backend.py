"""A sample of the onnx package's node tests, and that the comparison itself can fail."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx.parser import parse_model

from studies.onnx_backend import (
    Verdict,
    cases,
    compared,
    grouped,
    left_out,
    main,
    outcomes,
    report,
    run,
)

_SAMPLE = 250
_LEAST_PASSED = 0.9


@pytest.fixture(scope="module")
def every_case() -> list[TestCase]:
    with warnings.catch_warnings():
        # Some cases overflow while they work out what they expect.
        warnings.simplefilter("ignore")
        return cases()


def test_a_sample_passes_or_is_refused(every_case: list[TestCase]) -> None:
    sample = random.Random(3).sample(every_case, _SAMPLE)
    with warnings.catch_warnings():
        # onnx's reference, which evaluates what we have no kernel for, warns on casts of infinity.
        warnings.simplefilter("ignore")
        found = list(outcomes(sample))
    counts = Counter(item.verdict for item in found)
    assert counts[Verdict.FAILED] == 0, report(found)
    relevant = _SAMPLE - counts[Verdict.LEFT_OUT]
    assert counts[Verdict.PASSED] >= _LEAST_PASSED * relevant, report(found)


def test_a_case_that_expects_something_else_fails(
    every_case: list[TestCase], tmp_path: Path
) -> None:
    case = next(case for case in every_case if case.name == "test_matmul_2d")
    assert run(case, tmp_path).verdict is Verdict.PASSED
    assert case.data_sets is not None
    inputs, (wanted,) = case.data_sets[0]
    wrong = replace(case, data_sets=[(inputs, [wanted + np.float32(0.1)])])
    assert run(wrong, tmp_path).verdict is Verdict.FAILED


def test_floats_may_move_by_their_rounding_and_no_more() -> None:
    wanted = np.asarray([1.0, -2.0, 0.5], np.float32)
    assert compared(wanted * np.float32(1 + 2**-11), wanted, 0, 0) == ""
    assert compared(wanted + np.float32(4 * 2**-11 * 2.1), wanted, 0, 0) != ""
    assert compared(wanted[:2], wanted, 0, 0) == "shape [2], wanted [3]"
    assert compared(wanted.astype(np.float64), wanted, 0, 0) == "type float64, wanted float32"


def test_only_what_is_beyond_fp16_may_be_infinite() -> None:
    found = np.asarray([np.inf], np.float32)
    assert compared(found, np.asarray([70000.0], np.float32), 0, 0) == ""
    assert compared(found, np.asarray([60000.0], np.float32), 0, 0) != ""
    assert compared(np.asarray([np.nan], np.float32), np.asarray([1.0], np.float32), 0, 0) != ""


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_])
def test_integers_and_bools_must_be_equal(dtype: type[np.generic]) -> None:
    wanted = np.asarray([0, 1, 1], dtype)
    assert compared(wanted.copy(), wanted, 1, 1) == ""
    assert compared(np.asarray([1, 1, 1], dtype), wanted, 1, 1) == "1 of 3 elements differ"


@pytest.mark.parametrize(
    ("body", "opset", "why"),
    [
        ("g (float[2] x) => (float[2] y) { y = Relu (x) }", 17, ""),
        ("g (string[2] x) => (string[2] y) { y = Identity (x) }", 17, "uses strings"),
        ("g (seq(float[2]) x) => (float[2] y) { y = Relu (x) }", 17, "uses sequences"),
        (
            "g (float[2] x) => (float[2] y) { s = SequenceConstruct (x) y = Relu (x) }",
            17,
            "uses seqs",
        ),
        (
            "g (float[2] x) => (float[2] y) { y = RandomNormalLike (x) }",
            17,
            "draws random numbers",
        ),
        (
            "g (float[2] x, float r, bool t) => (float[2] y) { y = Dropout (x, r, t) }",
            17,
            "trains",
        ),
    ],
)
def test_what_is_no_inference_of_tensors_is_told_from_the_model(
    body: str, opset: int, why: str
) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {body}')
    assert left_out(model) == why


def test_reasons_are_grouped_without_names_and_numbers() -> None:
    reason = "node 'a/b' (ai.onnx::Foo, opset 17) gives 'y' 12 times; do 3 of this"
    assert grouped(reason) == "ai.onnx::Foo gives '...' N times"


def test_the_command_prints_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--filter", "test_matmul_2d", "--cores", "2"]) == 0
    assert "passed        1 (" in capsys.readouterr().out
