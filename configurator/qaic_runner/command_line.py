"""An argument vector as the options that it gives."""

from __future__ import annotations

from collections.abc import Sequence

from configurator.qaic_runner.flags import BY_NAME
from configurator.vendor_cli import getopt
from configurator.vendor_cli.line import CommandLine


def parse(arguments: Sequence[str]) -> CommandLine:
    """The options of `arguments`; raises `UsageError` naming the first that cannot be."""
    return getopt.parse(arguments, BY_NAME)
