"""One request from container to printed lines: run, print, and write what is asked for."""

from __future__ import annotations

from compiler import qpc
from compiler.target import device
from configurator.card_run import run_on_card
from configurator.qaic_runner.flags import LATENCY
from configurator.qaic_runner.outputs import compare, outputs_of, write_outputs
from configurator.qaic_runner.profiles import check_kinds, sampled, write_latencies
from configurator.qaic_runner.request import Request
from configurator.qaic_runner.stages import Stages, stages_of
from configurator.qaic_runner.writing import say
from configurator.tables import one_line
from configurator.vendor_cli.stats import device_text, stats_text

_NS_PER_US = 1e3


def run(request: Request) -> None:
    """Do it, printing as it goes; what cannot be raises before the statistics are printed."""
    profile = request.profile
    check_kinds(profile)
    program = qpc.read(request.directory)
    profiled = bool(qpc.read_profiling(request.directory))
    if request.verbose:
        _introduce(request)
    card = device(request.sku or program.sku)
    ran = run_on_card(program, card, request.options, request.amount)
    chosen = sampled(profile, ran)
    _inputs_lines(request)
    outputs = outputs_of(request, program)
    stages = stages_of(ran.recording)
    say(stats_text(ran.inferences, round(ran.duration_s * 1e6), ran.batch_size))
    if profiled:
        say(device_text(_device_spans(stages)))
    if set(profile.kinds) & set(LATENCY):
        told = ran.batch_size if profiled else None
        write_latencies(profile, program, ran, chosen, stages, told)
    if request.writing is not None:
        write_outputs(request.writing, program, ran, outputs)
    if request.compared:
        compare(program.outputs, request.compared, outputs)
    if request.verbose:
        _conclude(request)


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
