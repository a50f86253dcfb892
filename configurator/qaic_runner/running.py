"""One request from container to printed lines: run, print, and write what is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compiler import qpc
from compiler.ir.graph import Array
from compiler.program import Binding, Program
from compiler.target import device
from configurator.card_run import CardRun, run_on_card
from configurator.errors import ToolError, UsageError
from configurator.feeds import random_inputs, read_inputs, read_network
from configurator.qaic_runner.flags import LATENCY, STREAMS
from configurator.qaic_runner.latency import latency_text
from configurator.qaic_runner.request import Profile, Request, Writing
from configurator.qaic_runner.stages import I64, Stages, stages_of
from configurator.tables import one_line
from configurator.vendor_cli.stats import device_text, stats_text

_NS_PER_US = 1e3


def run(request: Request) -> None:
    """Do it, printing as it goes; what cannot be raises before the statistics are printed."""
    _check_kinds(request.profile)
    program = qpc.read(request.directory)
    profiled = bool(qpc.read_profiling(request.directory))
    if request.verbose:
        _introduce(request)
    ran = run_on_card(
        program, device(request.sku or program.sku), request.options, request.amount
    )
    _inputs_lines(request)
    outputs = _outputs(request, program)
    stages = stages_of(ran.recording)
    _say(stats_text(ran.inferences, round(ran.duration_s * 1e6), ran.batch_size))
    if profiled:
        _say(device_text(_device_spans(stages)))
    _write_latencies(request, program, ran, stages, profiled)
    if request.writing is not None:
        _write_outputs(request.writing, program, ran, outputs)
    _conclude(request, program, outputs)


def _check_kinds(profile: Profile) -> None:
    for kind in profile.kinds:
        if kind not in LATENCY:
            raise UsageError(
                f"--aic-profiling-type={kind}: is not written here yet; latency and "
                "latency_stream are"
            )


def _introduce(request: Request) -> None:
    _say(f"Device: ID {request.qid}")
    _say(one_line(f"Test path: {request.directory}"))
    for note in request.notes:
        _say(f"NOTE: {note}")


def _inputs_lines(request: Request) -> None:
    for file in request.inputs:
        _say(one_line(f"Input file: {file}"))
    if not request.inputs and not request.unbound:
        _say("Using bounded random inputs")


def _outputs(request: Request, program: Program) -> dict[str, Array]:
    """Values where something asks for them; given inputs are checked in any case."""
    inputs = read_inputs(program.inputs, request.inputs) if request.inputs else None
    if request.writing is None and not request.compared:
        return {}
    if inputs is None:
        inputs = random_inputs(program.inputs, bounded=not request.unbound)
    return read_network(request.directory).outputs(inputs)


def _device_spans(stages: Stages) -> dict[str, list[float]]:
    told = stages.device
    rows = {
        "ExecTimeUs": told.execution,
        "InputWaitTimeUs": told.input_wait,
        "OutputWaitTimeUs": told.output_wait,
    }
    return {name: (spans / _NS_PER_US).tolist() for name, spans in rows.items()}


def _write_latencies(
    request: Request, program: Program, ran: CardRun, stages: Stages, profiled: bool
) -> None:
    profile = request.profile
    if not set(profile.kinds) & set(LATENCY):
        return
    for activation, count in enumerate(ran.counts):
        title = one_line(
            f"{program.model_name}: activation {activation} of {len(ran.counts)}, "
            f"batch {ran.batch_size}, set size {ran.options.set_size}"
        )
        numbers = _sampled(profile, ran, count)
        text = latency_text(title, numbers, stages, ran.batch_size if profiled else None)
        name = f"aic-profiling-program-{activation}-latency.txt"
        _write(profile.folder / name, text.encode("utf-8", "surrogateescape"))


def _sampled(profile: Profile, ran: CardRun, count: int) -> I64:
    """Which of an activation's `count` inferences are measured."""
    if not set(profile.kinds) & set(STREAMS):
        return np.arange(profile.first, max(min(profile.first + profile.most, count), 0))
    stream = profile.stream
    first = ran.asked_before(stream.delay_s)
    end = count
    if stream.duration_s is not None:
        end = min(count, ran.asked_before(stream.delay_s + stream.duration_s))
    return np.arange(first, end, stream.stride)


def _write_outputs(
    writing: Writing, program: Program, ran: CardRun, outputs: dict[str, Array]
) -> None:
    """Each inference has the same input, and so the same output."""
    for activation, count in enumerate(ran.counts):
        for number in range(writing.first, min(writing.first + writing.count, count)):
            for binding in program.outputs:
                name = binding.name.replace("/", "_")
                file = f"{name}-activation-{activation}-inf-{number}.bin"
                _write(writing.folder / file, outputs[binding.name].tobytes())


def _write(path: Path, content: bytes) -> None:
    try:
        if path.exists():
            _say(one_line(f"Deleting previous file:{path}"))
            path.unlink()
        _say(one_line(f"Writing file:{path}"))
        path.write_bytes(content)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a name of the model that no file can have
        raise ToolError(f"{path}: {error}") from error


def _conclude(request: Request, program: Program, outputs: dict[str, Array]) -> None:
    if request.compared:
        _compare(program.outputs, request.compared, outputs)
    if request.verbose:
        _say("Inference run completed successfully!")
        if request.compared:
            _say("Output validation successful!")


def _compare(
    bindings: tuple[Binding, ...], files: tuple[Path, ...], outputs: dict[str, Array]
) -> None:
    """Byte by byte, as the real tool does it; `ToolError` at the first that differs."""
    if len(files) != len(bindings):
        raise UsageError(f"{len(files)} output files, the network has {len(bindings)}")
    for binding, file in zip(bindings, files, strict=True):
        try:
            wanted = file.read_bytes()
        except OSError as error:
            raise ToolError(f"{file}: {error.strerror}") from error
        found = outputs[binding.name].tobytes()
        if wanted != found:
            raise ToolError(f"output {binding.name} differs from {file}{_where(wanted, found)}")


def _where(wanted: bytes, found: bytes) -> str:
    if len(wanted) != len(found):
        return f": {len(found)} bytes against {len(wanted)}"
    pairs = zip(wanted, found, strict=True)
    return f" from byte {next(at for at, (a, b) in enumerate(pairs) if a != b)} on"


def _say(line: str) -> None:
    print(line, flush=True)
