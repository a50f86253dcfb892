"""The console script: output streams and exit codes.

1 is the exit code of the real tool's failures. Errors are one line on stderr and nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from configurator.errors import ConfiguratorError
from configurator.qaic_util.flags import BY_NAME
from configurator.qaic_util.help import PROGRAM, help_text
from configurator.tables import one_line
from configurator.vendor_cli.getopt import UnknownOptionError, parse
from configurator.vendor_cli.line import CommandLine

if TYPE_CHECKING:
    from configurator.qaic_util.request import Request

OK = 0
FAILED = 1
INTERRUPTED = 130

_FAILURES = (ConfiguratorError, OSError)


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Names may hold letters that the terminal's encoding lacks.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line, without the program's name; the exit code."""
    try:
        _run(parse(arguments, BY_NAME))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone, like `head`: say nothing more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    except UnknownOptionError as error:
        return _failed(f"{PROGRAM}: {one_line(str(error))}; -h lists the options")
    except _FAILURES as error:
        return _failed(f"{PROGRAM}: {_line(error)}")
    return OK


def _run(given: CommandLine) -> None:
    if given.has("-h"):
        print(help_text())
        return
    from configurator.qaic_util.request import request_of  # numpy takes a while to import

    _show(request_of(given))


def _show(request: Request) -> None:
    from configurator.qaic_util import listing

    if request.json is not None:
        request.json.write_text(listing.listing_json(request.cards), encoding="utf-8")
        return
    print(listing.note(request.cards), file=sys.stderr)
    if request.period_s is None:
        print(listing.listing_text(request.cards))
    else:
        _repeat(listing.table_text(request.cards), request.period_s)


def _repeat(table: str, period_s: int) -> None:
    while True:
        print(table, flush=True)
        time.sleep(period_s)


def _failed(line: str) -> int:
    print(line, file=sys.stderr)
    return FAILED


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(str(error)) or type(error).__name__
