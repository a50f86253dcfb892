"""One request from container to printed lines: run, print, and write what is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from compiler import qpc
from compiler.program import Program
from compiler.target import device
from configurator.card_run import CardRun, run_on_card
from configurator.qaic_runner.flags import LATENCY, STATS
from configurator.qaic_runner.opstats import OperationTimes, operation_times
from configurator.qaic_runner.outputs import Values, compare, outputs_of, write_outputs
from configurator.qaic_runner.profiles import (
    check_kinds,
    sampled,
    write_latencies,
    write_statistics,
)
from configurator.qaic_runner.request import Request
from configurator.qaic_runner.stages import I64, Stages, stages_of
from configurator.qaic_runner.writing import say
from configurator.tables import one_line
from configurator.vendor_cli.stats import device_text, stats_text

_NS_PER_US = 1e3
_UNPROFILED = (
    "WARNING: no statistics are written: the network was compiled without "
    "-aic-profiling-type=stats or -stats-level"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """All that a run shows; `operations` are `None` where nobody asks or the device tells none."""

    program: Program
    profiled: bool
    ran: CardRun
    stages: Stages
    chosen: tuple[I64, ...]
    operations: OperationTimes | None
    outputs: Values


def run(request: Request) -> None:
    """Do it, printing as it goes; what cannot be raises before the statistics are printed."""
    check_kinds(request.profile)
    program = qpc.read(request.directory)
    if request.verbose:
        _introduce(request)
    result = _result(request, program)
    _print(result)
    _write(request, result)
    if request.compared:
        compare(program.outputs, request.compared, result.outputs)
    if request.verbose:
        _conclude(request)


def _result(request: Request, program: Program) -> _Result:
    card = device(request.sku or program.sku)
    profiled = bool(qpc.read_profiling(request.directory))
    ran = run_on_card(program, card, request.options, request.amount)
    chosen = sampled(request.profile, ran)
    _inputs_lines(request)
    told = profiled and request.profile.asks_for(STATS)
    return _Result(
        program=program,
        profiled=profiled,
        ran=ran,
        stages=stages_of(ran.recording),
        chosen=chosen,
        operations=operation_times(program, card, ran.options) if told else None,
        outputs=outputs_of(request, program),
    )


def _print(result: _Result) -> None:
    ran = result.ran
    say(stats_text(ran.inferences, round(ran.duration_s * 1e6), ran.batch_size))
    if result.profiled:
        say(device_text(_device_spans(result.stages)))


def _write(request: Request, result: _Result) -> None:
    profile, program, ran = request.profile, result.program, result.ran
    if profile.asks_for(LATENCY):
        told = ran.batch_size if result.profiled else None
        write_latencies(profile, program, ran, result.chosen, result.stages, told)
    if result.operations is not None:
        write_statistics(profile, result.chosen, result.operations)
    elif profile.asks_for(STATS):
        say(_UNPROFILED)
    if request.writing is not None:
        write_outputs(request.writing, program, ran, result.outputs)


def _introduce(request: Request) -> None:
    say(f"Device: ID {request.qid}")
    say(one_line(f"Test path: {request.directory}"))
    for note in request.notes:
        say(f"NOTE: {note}")


def _inputs_lines(request: Request) -> None:
    for file in request.inputs:
        say(one_line(f"Input file: {file}"))
    if not request.inputs and not request.unbound:
        say("Using bounded random inputs")


def _device_spans(stages: Stages) -> dict[str, list[float]]:
    told = stages.device
    rows = {
        "ExecTimeUs": told.execution,
        "InputWaitTimeUs": told.input_wait,
        "OutputWaitTimeUs": told.output_wait,
    }
    return {name: (spans / _NS_PER_US).tolist() for name, spans in rows.items()}


def _conclude(request: Request) -> None:
    say("Inference run completed successfully!")
    if request.compared:
        say("Output validation successful!")
