"""How a command ends: one line on stderr, and an exit code.

0 ok; 2 usage: options, model or study that cannot be; 3 no feasible configuration; 5 a tool, a
device, a file or a database failed; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

import compiler.errors
import runtime_sim.errors
from compiler.errors import CompileError, QpcError
from configurator.errors import ConfiguratorError, InfeasibleError, UsageError
from configurator.tables import one_line
from runtime_sim.errors import DeviceError, RunOptionError

OK = 0
USAGE = 2
INFEASIBLE = 3
TOOL_FAILURE = 5
INTERRUPTED = 130

_FAILURES = (CompileError, DeviceError, ConfiguratorError, OSError, MemoryError)
_INFEASIBLE = (
    InfeasibleError,
    compiler.errors.DoesNotFitError,
    runtime_sim.errors.DoesNotFitError,
)


def exit_code(error: Exception) -> int:
    """The exit code that `error` deserves."""
    if isinstance(error, _INFEASIBLE):
        return INFEASIBLE
    if isinstance(error, QpcError):
        return TOOL_FAILURE
    if isinstance(error, (UsageError, RunOptionError, CompileError)):
        return USAGE
    return TOOL_FAILURE


def run(command: Callable[[], object]) -> int:
    """Call `command`, report what ends it, and give the exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        return _report(_usage_line(error), USAGE)
    except _FAILURES as error:
        return _report(_failure_line(error), exit_code(error))
    return code if isinstance(code, int) else OK


def _report(line: str, code: int) -> int:
    print(f"error: {line}", file=sys.stderr)
    return code


def _usage_line(error: typer.TyperException) -> str:
    # Typer keeps the class of errors that know their command to itself.
    command = getattr(getattr(error, "ctx", None), "command_path", "configurator")
    message = error.format_message().replace("Value error, ", "")
    return f"{one_line(message)} (help: {command} --help)"


def _failure_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "this machine has not enough memory; lower batch size"
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(str(error)) or type(error).__name__


def _reader_left() -> int:
    """The reader of our output is gone, like `head`: say nothing more, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK
