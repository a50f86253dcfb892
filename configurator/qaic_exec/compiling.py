"""One request from model to printed lines: compile, report, write, and execute unless told not."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from compiler import qpc
from compiler.driver import ModelFacts, OnnxCompiler
from compiler.ir.graph import Graph
from compiler.program import Program, TaskKind
from compiler.qpc.container import replacing
from configurator.qaic_exec import advice, metrics
from configurator.qaic_exec.quantizing import quantised
from configurator.qaic_exec.request import Request
from configurator.qaic_exec.shapes import shaped
from configurator.ranges import fp16_losses
from configurator.tables import grid, one_line
from configurator.vendor_cli.stats import device_text, stats_text
from runtime_sim.options import RunOptions


@dataclass(slots=True)
class Clock:
    """Seconds that each stage took, by name, in the order of their first use."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what runs inside to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + took

    def text(self) -> str:
        """A table with the sum below."""
        rows = [[name, f"{seconds:.3f}"] for name, seconds in self.seconds.items()]
        total = ["total", f"{sum(self.seconds.values()):.3f}"]
        return grid([["stage", "seconds"], *rows, total])


@dataclass(frozen=True, slots=True)
class _Compiled:
    program: Program
    graph: Graph


def run(request: Request) -> None:
    """Do it, printing as it goes; a failure raises before anything is written."""
    if request.quantization is None:
        _run(request, Clock(), request.model)
        return
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        with clock.stage("profile and quantise"):
            model, warnings = quantised(
                request.quantization, request.model, Path(folder), request.symbols
            )
        told = (*request.warnings, *warnings)
        _run(replace(request, model=model, warnings=told), clock, request.model)


def _run(request: Request, clock: Clock, named: Path) -> None:
    compiler = OnnxCompiler()
    _say(one_line(f"Reading ONNX Model from {named}"))
    with clock.stage("read the model"):
        facts = compiler.describe(request.model)
    asked = shaped(request, facts)
    _remarks(request, facts, asked.warnings)
    if request.template is not None:
        _write_template(request.template, compiler.graph(request.model, asked.options[0]))
        return
    _say("Compile started " + "." * 14)
    built = []
    for options in asked.options:
        with clock.stage("bind and optimise"):
            graph = compiler.graph(request.model, options)
        with clock.stage("schedule"):
            program = compiler.compile(request.model, options, request.device)
        built.append(_Compiled(program, graph))
    _say(f"Compiling model with {_precision(built[0].program)} precision.")
    _constants(built[0].graph, clock)
    for compiled in built:
        _report(request, compiled.program, len(built) > 1)
    _write(request, built, clock)
    if not request.compile_only:
        for compiled in built:
            _execute(request, compiled.program, clock)
    if request.reports.times:
        _say(clock.text())


def _precision(program: Program) -> str:
    is_int8 = bool((program.tasks.kind == TaskKind.MATMUL_INT8).any())
    return "INT8" if is_int8 else "FP16"


def _remarks(request: Request, facts: ModelFacts, found: tuple[str, ...]) -> None:
    for warning in (*request.warnings, *facts.notes, *found):
        _say(one_line(f"WARNING: {warning}"))
    if request.verbosity:
        for note in (*request.notes, f"compiled for the card {request.device.sku.value}"):
            _say(f"NOTE: {note}")


def _constants(graph: Graph, clock: Clock) -> None:
    with clock.stage("check constants"):
        for losses in fp16_losses(graph):
            _say(one_line(f"WARNING: {losses}"))


def _report(request: Request, program: Program, among_several: bool) -> None:
    reports = request.reports
    if among_several and (reports.metrics or reports.ddr or reports.warnings or request.verbosity):
        _say(one_line(f"Specialization {_shape_text(program)}:"))
    if request.verbosity:
        chosen = ", ".join(f"{name}={value}" for name, value in program.chosen)
        _say(f"NOTE: the compiler chose {chosen or 'nothing'}")
    if reports.metrics:
        _say(metrics.metrics_text(program))
    elif reports.ddr:
        _say(metrics.ddr_text(program))
    if reports.warnings:
        for warning in advice.warnings(program):
            _say(one_line(f"WARNING: {warning}"))


def _shape_text(program: Program) -> str:
    options = program.options
    extents = (("batch", options.batch_size), *options.symbols)
    return ", ".join(f"{name}={extent}" for name, extent in extents)


def _write(request: Request, built: list[_Compiled], clock: Clock) -> None:
    if request.binary_dir is None:
        if request.compile_only:
            _say("WARNING: nothing is written: -aic-binary-dir is not given")
        return
    with clock.stage("write"):
        first, *others = built
        programs = [compiled.program for compiled in others]
        profiling = qpc.Profiling(
            kinds=request.reports.profiling, stats_level=request.reports.stats_level
        )
        qpc.write(first.program, request.binary_dir, first.graph, programs, profiling)
    _say(one_line(f"Generated binary is present at {request.binary_dir}"))


def _write_template(path: Path, graph: Graph) -> None:
    """The inputs and outputs with the precision that they have; kept whole or not at all."""
    lines = []
    for name in (*graph.inputs, *graph.outputs):
        lines += [f" - IOName: {name}", f"   Precision: {graph.types[name].dtype.value}", ""]
    with replacing(path) as file:
        file.write("\n".join(lines).encode("utf-8", "surrogateescape"))
    _say(one_line(f"Generated custom IO template is present at {path}"))


def _execute(request: Request, program: Program, clock: Clock) -> None:
    """One inference an instance, on the simulated card."""
    from runtime_sim.simulator import SimulatorBackend

    backend = SimulatorBackend(request.device)
    options = RunOptions(instances=request.instances, set_size=1, inferences=1)
    with clock.stage("execute"):
        measured = backend.run(program, options)
        steady = backend.steady(program, options)
    duration_us = round(measured.duration_s * 1e6)
    _say(stats_text(measured.inferences, duration_us, request.stats_batch_size))
    if request.reports.profiling:
        # What else the device waits for shows in a longer run only.
        spans_us = [span * 1e6 for span in steady.recording.executions_s()]
        _say(device_text({"ExecTimeUs": spans_us}))


def _say(line: str) -> None:
    print(line, flush=True)
