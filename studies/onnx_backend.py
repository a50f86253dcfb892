"""The onnx package's own node tests through the compiler: `python -m studies.onnx_backend`.

Each case is a model of one node (or of its function body) with inputs and the outputs that ONNX
defines for them. It is written to a file, compiled for some numbers of cores, executed tile by
tile, and held against those outputs. A case is left out when it is no inference of tensors: it
trains, draws random numbers, or uses strings, sequences, optionals or maps. That is decided from
the model.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, defs, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError, ExecutionError, ModelError
from compiler.execute.run import execute
from compiler.options import CompileOptions
from compiler.target import Sku, device

Value = NDArray[np.generic]
Values = dict[str, Value]
Reals = NDArray[np.float64]

CORES = (1, 3)
"""One core, and a number that divides few extents."""


class Verdict(Enum):
    """What became of a case."""

    PASSED = "passed"
    REFUSED = "refused"
    FAILED = "failed"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case; `reason` says why it did not pass, `group` the same without names and numbers."""

    name: str
    verdict: Verdict
    reason: str = ""
    group: str = ""


def cases(text: str = "") -> list[TestCase]:
    """The cases whose name contains `text`, by name."""
    # Some cases draw their inputs from numpy's global generator when they are collected.
    np.random.seed(0)
    from onnx.backend.test.case.node import collect_testcases

    found = [case for case in collect_testcases(None) if text in case.name]
    return sorted(found, key=lambda case: case.name)


def left_out(model: ModelProto) -> str:
    """Why the case is no inference of tensors; empty when it is one."""
    declared = [item.type for item in (*model.graph.input, *model.graph.output)]
    for type_ in declared:
        if not type_.HasField("tensor_type"):
            return f"uses {type_.WhichOneof('value').removesuffix('_type')}s"
        if type_.tensor_type.elem_type == TensorProto.STRING:
            return "uses strings"
    opsets = {item.domain: item.version for item in model.opset_import}
    reasons = (_node_left_out(node, opsets) for node in _nodes(model.graph))
    return next(filter(None, reasons), "")


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def _node_left_out(node: NodeProto, opsets: dict[str, int]) -> str:
    if "training" in node.domain:
        return "trains"
    if any(item.name == "training_mode" and item.i for item in node.attribute):
        return "trains"
    # Dropout's third input is training_mode (opset 12 and later).
    if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
        return "trains"
    if node.op_type.startswith("Random") or node.op_type in {"Multinomial", "Bernoulli"}:
        return "draws random numbers"
    return _of_other_types(node, opsets)


def _of_other_types(node: NodeProto, opsets: dict[str, int]) -> str:
    """Whether an operand can be nothing but a sequence, optional, map or string tensor."""
    version = opsets.get(node.domain, 1)
    if not defs.has(node.op_type, max_inclusive_version=version, domain=node.domain):
        return ""
    schema = defs.get_schema(node.op_type, version, node.domain)
    for item in (*schema.inputs, *schema.outputs):
        if all(re.match(r"seq|optional|map|tensor\(string", kind) for kind in item.types):
            return f"uses {min(item.types).split('(')[0]}s"
    return ""


def run(case: TestCase, folder: Path, cores: Iterable[int] = CORES) -> Outcome:
    """Compile and execute a case for each number of cores."""
    assert case.model is not None
    why = left_out(case.model)
    if why:
        return Outcome(case.name, Verdict.LEFT_OUT, why, why)
    path = folder / f"{case.name}.onnx"
    onnx.save(case.model, path)
    try:
        for count in cores:
            wrong = _difference(case, path, count)
            if wrong:
                return Outcome(case.name, Verdict.FAILED, f"{count} cores: {wrong}", "values")
    except CompileError as error:
        return _refusal(case.name, error)
    except Exception as error:
        # A defect must be reported as one, with the place, and not end the other cases.
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        return Outcome(case.name, Verdict.FAILED, text.splitlines()[0], grouped(text))
    finally:
        path.unlink()
    return Outcome(case.name, Verdict.PASSED)


def _refusal(name: str, error: CompileError) -> Outcome:
    """A refusal; one that calls the case ill-formed, or that comes at run time, is a failure."""
    text = str(error)
    is_wrong = isinstance(error, ModelError | ExecutionError) and "nothing to compile" not in text
    verdict = Verdict.FAILED if is_wrong else Verdict.REFUSED
    return Outcome(name, verdict, text, grouped(text))


def grouped(reason: str) -> str:
    """A reason without what differs between cases that have it in common."""
    text = re.sub(r"^node '[^']*' \(([^,]*), opset \d+\)", r"\1", reason.splitlines()[0])
    text = re.sub(r"^/\S*?: ", "", text)
    text = re.sub(r"'[^']*'", "'...'", text)
    return re.sub(r"\d+", "N", text.split("; ")[0])


def _difference(case: TestCase, path: Path, cores: int) -> str:
    compiler = OnnxCompiler()
    model, feeds, expected = _content(case)
    open_inputs = _open(model) & feeds.keys()
    shapes = tuple((name, feeds[name].shape) for name in sorted(open_inputs))
    options = CompileOptions(num_cores=cores, batch_size=_batch_size(feeds), input_shapes=shapes)
    program = compiler.compile(path, options, device(Sku.STD))
    found = execute(program, compiler.graph(path, options), feeds)
    wrong = _first_difference(found, expected, case)
    if not wrong:
        return ""
    truths = rounded_truths(case)
    is_right = any(not _first_difference(found, truth, case) for truth in truths)
    return "" if is_right else wrong


def _content(case: TestCase) -> tuple[ModelProto, Values, Values]:
    """The model, its inputs and the outputs it should give, by name."""
    model, sets = case.model, case.data_sets
    assert model is not None
    assert sets is not None
    inputs, outputs = sets[0]
    names = [item.name for item in model.graph.input if item.name]
    results = [item.name for item in model.graph.output]
    feeds = dict(zip(names, map(_array, inputs), strict=False))
    return model, feeds, dict(zip(results, map(_array, outputs), strict=True))


def _array(value: object) -> Value:
    """A case holds an array, or a message where numpy has no such type."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _first_difference(found: Values, expected: Values, case: TestCase) -> str:
    for name, wanted in expected.items():
        wrong = compared(found[name], wanted, case.rtol, case.atol)
        if wrong:
            return f"{name}: {wrong}"
    return ""


def rounded_truths(case: TestCase) -> list[Values]:
    """What ONNX's reference gives where each float is rounded to fp16, as on the device.

    For cases that rounding moves far: a step, a pole, an intermediate beyond the range. What is
    beyond it is infinite in the first answer, and a large number in the second: numpy, by which
    the reference works, has no rule for infinity as an integer, where the device saturates. Empty
    where the reference has no answer, or gives another one than the case without rounding: then
    it says nothing.
    """
    model, feeds, expected = _content(case)
    try:
        exact = _evaluated(model, feeds, lambda value: value)
        if _first_difference(exact, expected, case):
            return []
        return [_evaluated(model, feeds, held) for held in (_in_fp16, _in_fp16_or_large)]
    except (NotImplementedError, RuntimeError, TypeError, ValueError, KeyError):
        return []


def _evaluated(model: ModelProto, feeds: Values, held: Callable[[Value], Value]) -> Values:
    """Node after node, with `held` applied to every value."""
    values = {name: held(value) for name, value in feeds.items()}
    values |= {item.name: held(_array(item)) for item in model.graph.initializer}
    for node in model.graph.node:
        graph = GraphProto(name="node", node=[node])
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in node.input if name)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        single = ModelProto(ir_version=model.ir_version, graph=graph)
        single.opset_import.extend(model.opset_import)
        given = {name: values[name] for name in node.input if name}
        results = ReferenceEvaluator(single).run(None, given)
        names = [name for name in node.output if name]
        values |= {name: held(np.asarray(v)) for name, v in zip(names, results, strict=True)}
    return {item.name: values[item.name] for item in model.graph.output}


def _in_fp16(value: Value) -> Value:
    if not _is_float(value):
        return value
    return value.astype(np.float32).astype(np.float16).astype(value.dtype)


def _in_fp16_or_large(value: Value) -> Value:
    held = _in_fp16(value)
    if not _is_float(value):
        return held
    is_beyond = np.isinf(held) & np.isfinite(value)
    return np.where(is_beyond, np.copysign(_LARGE, value.astype(np.float32)), held).astype(
        value.dtype
    )


_LARGE = 2.0**30
"""Beyond fp16 and any 16-bit integer, and not beyond 32-bit ones."""


def _is_float(value: Value) -> bool:
    """Also of the types that numpy itself does not have, such as bfloat16."""
    return value.dtype.kind == "f" or "float" in value.dtype.name


def _open(model: ModelProto) -> set[str]:
    """Inputs of which an extent is not declared; 0 is how exporters write one they do not know."""
    return {
        item.name
        for item in model.graph.input
        if not item.type.tensor_type.HasField("shape")
        or any(not dim.dim_value for dim in item.type.tensor_type.shape.dim)
    }


def _batch_size(feeds: Values) -> int:
    """The leading extent where all inputs share one, as a user of a fixed batch would say it."""
    leading = {value.shape[0] for value in feeds.values() if value.ndim}
    return leading.pop() if len(leading) == 1 else 1


FP16_MAX = 65504.0
FP16_STEP = 2.0**-11
BFLOAT16_STEP = 2.0**-8
"""Rounding moves a number by at most this share of itself (half a unit in the last place)."""
ROUNDINGS = 4
"""assumed: two operands, the result, and one between them, each rounded once. A product of sums
moves by these shares of its largest terms, which is why they are taken of the largest result."""


def compared(found: Value, wanted: Value, rtol: float, atol: float) -> str:
    """What is wrong with a result; empty when it is right.

    Integers and bools must be equal. A float on the device is an fp16 value: its operands were
    rounded by up to 2^-11 of themselves, and so was the result. Beyond 65504 it is infinite. A
    case in bfloat16 states its own values to 2^-8.
    """
    if found.shape != wanted.shape:
        return f"shape {list(found.shape)}, wanted {list(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"type {found.dtype}, wanted {wanted.dtype}"
    if not _is_float(wanted):
        count = int(np.count_nonzero(found != wanted))
        return f"{count} of {wanted.size} elements differ" if count else ""
    step = BFLOAT16_STEP if wanted.dtype.name == "bfloat16" else FP16_STEP
    exact = wanted.astype(np.float64)
    finite = np.abs(exact[np.isfinite(exact)])
    slack = atol + ROUNDINGS * step * float(finite.max(initial=0.0))
    return _float_difference(found.astype(np.float64), exact, rtol, slack)


def _float_difference(found: Reals, wanted: Reals, rtol: float, slack: float) -> str:
    with np.errstate(invalid="ignore"):
        bound = slack + rtol * np.abs(wanted)
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        near = np.abs(found - wanted) <= bound
        beyond = (np.abs(wanted) + bound > FP16_MAX) & (np.abs(found) >= FP16_MAX)
    wrong = ~(same | near | beyond)
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong))
    return f"{int(wrong.sum())} of {wanted.size} differ, first {found[at]:g} for {wanted[at]:g}"


def outcomes(chosen: Sequence[TestCase], cores: Iterable[int] = CORES) -> Iterator[Outcome]:
    """Each case's outcome, in order."""
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            with np.errstate(all="ignore"):
                yield run(case, Path(folder), tuple(cores))


def report(found: Sequence[Outcome]) -> str:
    """Counts, the share that passed of the inference-relevant cases, and reasons by count."""
    counts = Counter(item.verdict for item in found)
    relevant = len(found) - counts[Verdict.LEFT_OUT]
    lines = [f"{len(found)} cases, {relevant} of them inferences of tensors"]
    for verdict in Verdict:
        share = f" ({counts[verdict] / relevant:.1%})" if relevant else ""
        lines.append(
            f"{verdict.value:9} {counts[verdict]:5}"
            + (share if verdict is not Verdict.LEFT_OUT else "")
        )
    kinds = Counter(_kind(item.group) for item in found if item.verdict is Verdict.REFUSED)
    lines += ["\nrefused, by kind of reason:"] if kinds else []
    lines += [f"{count:5}  {kind}" for kind, count in kinds.most_common()]
    for verdict in (Verdict.FAILED, Verdict.REFUSED, Verdict.LEFT_OUT):
        groups = Counter(item.group for item in found if item.verdict is verdict)
        lines += [f"\n{verdict.value}:"] if groups else []
        lines += [f"{count:5}  {group}" for group, count in groups.most_common()]
    return "\n".join(lines)


def _kind(group: str) -> str:
    """A group without the operator or value that it is about."""
    return re.sub(r"^(?:node )?(?:input )?(?:[\w.]+::\w+|'\.\.\.'):? ", "", group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 when a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object a case, as a JSON list")
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases with TEXT in the name")
    parser.add_argument("--cores", type=int, action="append", help="default: 1 and 3")
    asked = parser.parse_args(arguments)
    found = list(outcomes(cases(asked.filter), asked.cores or CORES))
    if asked.json:
        rows = [{**asdict(item), "verdict": item.verdict.value} for item in found]
        print(json.dumps(rows, indent=1))
    else:
        print(report(found))
    return int(any(item.verdict is Verdict.FAILED for item in found))


if __name__ == "__main__":
    sys.exit(main())
