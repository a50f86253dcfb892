"""Values: which inputs are fed, what comes out, where it goes, what it is compared with."""

from __future__ import annotations

from pathlib import Path

from compiler.ir.graph import Array
from compiler.program import Binding, Program
from configurator.card_run import CardRun
from configurator.errors import ToolError, UsageError
from configurator.feeds import random_inputs, read_inputs, read_network
from configurator.qaic_runner.request import Request, Writing
from configurator.qaic_runner.writing import write_file

Values = dict[str, Array]


def outputs_of(request: Request, program: Program) -> Values:
    """By execution, where something asks for them; given inputs are checked in any case."""
    inputs = read_inputs(program.inputs, request.inputs) if request.inputs else None
    if request.writing is None and not request.compared:
        return {}
    if request.compared:
        _check_count(program.outputs, len(request.compared))
    if inputs is None:
        inputs = random_inputs(program.inputs, bounded=not request.unbound)
    return read_network(request.directory).outputs(inputs)


def _check_count(bindings: tuple[Binding, ...], files: int) -> None:
    if files != len(bindings):
        names = ", ".join(binding.name for binding in bindings)
        raise UsageError(f"{files} output files, the network has {len(bindings)}: {names}")


def write_outputs(writing: Writing, program: Program, ran: CardRun, outputs: Values) -> None:
    """Each inference has the same input, and so the same output."""
    for activation, count in enumerate(ran.counts):
        for number in range(writing.first, min(writing.first + writing.count, count)):
            for binding in program.outputs:
                name = binding.name.replace("/", "_")
                file = f"{name}-activation-{activation}-inf-{number}.bin"
                write_file(writing.folder / file, outputs[binding.name].tobytes())


def compare(bindings: tuple[Binding, ...], files: tuple[Path, ...], outputs: Values) -> None:
    """Byte by byte, as the real tool does it; `ToolError` at the first that differs."""
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
