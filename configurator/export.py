"""The vendor's command lines for one trial: `qaic-exec` to compile it, `qaic-runner` to run it."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions, Precision
from configurator import objective
from configurator.errors import InfeasibleError, UsageError
from configurator.records import Candidate, GivenShape, Study, TrialRow, TrialState

COMPILER_PATH = "/opt/qti-aic/exec/qaic-exec"
RUNNER_PATH = "/opt/qti-aic/exec/qaic-runner"

# The length of run that the vendor's tuning tutorials measure with.
RUN_TIME_S = 20

# assumed: far below the 255 bytes that file systems allow in a name, and still readable.
_LONGEST_SLUG = 80

# How -model-input names element types; others go by the model's name.
INPUT_TYPES = {
    DType.FLOAT32: "float",
    DType.FLOAT16: "float16",
    DType.FLOAT64: "double",
    DType.INT8: "int8",
    DType.UINT8: "uint8",
    DType.INT16: "int16",
    DType.INT32: "int32",
    DType.INT64: "int64",
    DType.BOOL: "bool",
}

_PRECISION_FLAGS = {Precision.FP16: "-convert-to-fp16"}


@dataclass(frozen=True, slots=True)
class Commands:
    """What to type, as argument vectors; `notes` say what the vectors leave open."""

    trial: int
    compile: tuple[str, ...]
    run: tuple[str, ...]
    notes: tuple[str, ...]


def commands(study: Study, row: TrialRow) -> Commands:
    """The commands that repeat `row` on a card."""
    directory = binary_directory(study.name, row.number)
    return Commands(
        trial=row.number,
        compile=compile_argv(study, row.candidate.compile, directory),
        run=run_argv(row.candidate, directory),
        notes=notes(row.candidate.compile),
    )


def chosen(study: Study, rows: Sequence[TrialRow], number: int | None) -> TrialRow:
    """Trial `number` of `rows`, or the best one for None.

    Raises `InfeasibleError` where no trial is complete, and `UsageError` where trial `number` does
    not exist or has no measurement.
    """
    if number is None:
        best = objective.best(rows, study.workflow)
        if best is None:
            raise InfeasibleError(f"study {study.name} has no complete trial; tune it first")
        return best
    row = next((row for row in rows if row.number == number), None)
    if row is None:
        held = f"{rows[0].number} to {rows[-1].number}" if rows else "none yet"
        raise UsageError(f"study {study.name} has no trial {number}; it has {held}")
    if row.state is not TrialState.COMPLETE:
        raise UsageError(f"trial {number} is {row.state.value}: {row.reason}")
    return row


def compile_argv(study: Study, options: CompileOptions, directory: str) -> tuple[str, ...]:
    """`qaic-exec` with every flag that `options` fixes; unset ones are left out."""
    return (
        COMPILER_PATH,
        "-v",
        "-aic-hw",
        "-aic-hw-version=2.0",
        f"-m={study.model_path}",
        *_shape_flags(study, options),
        f"-aic-num-cores={options.num_cores}",
        *_split_flags(options),
        *(("-multicast-weights",) if options.multicast_weights else ()),
        _PRECISION_FLAGS[options.precision],
        f"-stats-batchsize={options.batch_size}",
        f"-aic-binary-dir={directory}",
        "-compile-only",
    )


def run_argv(candidate: Candidate, directory: str) -> tuple[str, ...]:
    """`qaic-runner` on the compiled directory; `-T` is the number of host threads a queue."""
    run = candidate.run
    return (
        RUNNER_PATH,
        *("-t", directory),
        *("-a", str(run.instances)),
        *("-S", str(run.set_size)),
        *("-T", str(run.threads_per_queue)),
        *("--time", str(RUN_TIME_S)),
    )


def notes(options: CompileOptions) -> tuple[str, ...]:
    """One sentence for each flag that the trial left to the compiler."""
    unset = [name for name in ("ols", "mos") if getattr(options, name) is None]
    return tuple(f"-{name}= left to the compiler" for name in unset)


def binary_directory(study_name: str, number: int) -> str:
    """A folder name of letters, digits, dots, dashes and underscores, different for each trial."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", study_name)[:_LONGEST_SLUG]
    if slug != study_name:
        digest = hashlib.sha256(study_name.encode("utf-8", "surrogatepass")).hexdigest()
        slug = f"{slug}-{digest[:8]}"
    return f"qpc-{slug}-trial-{number}"


def shell_text(found: Commands) -> str:
    """Lines to paste into a POSIX shell; notes become comments."""
    comments = [f"# {note}" for note in found.notes]
    return "\n".join([*comments, shlex.join(found.compile), shlex.join(found.run)])


def document(study: Study, found: Commands) -> dict[str, object]:
    """The JSON form: argument vectors for programs, lines for people."""
    return {
        "study": study.name,
        "number": found.trial,
        "compile": list(found.compile),
        "run": list(found.run),
        "compile_line": shlex.join(found.compile),
        "run_line": shlex.join(found.run),
        "notes": list(found.notes),
    }


def _shape_flags(study: Study, options: CompileOptions) -> tuple[str, ...]:
    batch_size = options.batch_size
    symbols = [f"-onnx-define-symbol={name},{extent}" for name, extent in options.symbols]
    shapes = [_input_flag(shape, batch_size) for shape in study.input_shapes]
    if study.batch_symbol is None:
        return (*symbols, f"-batchsize={batch_size}", *shapes)
    return (*symbols, f"-onnx-define-symbol={study.batch_symbol},{batch_size}", *shapes)


def _input_flag(shape: GivenShape, batch_size: int) -> str:
    dims = ",".join(map(str, shape.of_batch(batch_size)))
    kind = INPUT_TYPES.get(shape.dtype, shape.dtype.value)
    return f"-model-input={shape.input},{kind},[{dims}]"


def _split_flags(options: CompileOptions) -> tuple[str, ...]:
    named = (("ols", options.ols), ("mos", options.mos))
    return tuple(f"-{name}={value}" for name, value in named if value is not None)
