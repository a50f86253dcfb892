"""An argument vector as the options that it gives.

Options have one dash and are never shortened. A value follows `=` or is the next argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from configurator.errors import UsageError
from configurator.qaic_exec.flags import BY_NAME
from configurator.vendor_cli.line import CommandLine, Given, check_repeats


class UnknownOptionError(UsageError):
    """An argument that is no option, answered in the real tool's words."""

    def __init__(self, argument: str) -> None:
        super().__init__(
            f"Invalid option {argument}. Use -h, -help, or --help for list of options."
        )


def parse(arguments: Sequence[str]) -> CommandLine:
    """The options of `arguments`; raises `UsageError` naming the first that cannot be."""
    waiting, given = list(arguments), []
    while waiting:
        given.append(_take(waiting))
    check_repeats(given)
    return CommandLine(tuple(given))


def _take(waiting: list[str]) -> Given:
    """The option that comes next, with the argument that is its value."""
    argument = waiting.pop(0)
    name, equals, value = argument.partition("=")
    flag = BY_NAME.get(name)
    if flag is None:
        raise UnknownOptionError(argument)
    if flag.value is None:
        if equals:
            raise UsageError(f"{argument}: {name} takes no value")
        return Given(flag, name)
    if not equals:
        # No value of any option starts with a dash, but for paths, which can follow `=`.
        if not waiting or waiting[0].startswith("-"):
            raise UsageError(f"{name} needs a value: {name}={flag.value.syntax}")
        value = waiting.pop(0)
    fault = flag.value.fault(value)
    if fault is not None:
        raise UsageError(f"{name}={value}: {fault}")
    return Given(flag, name, value)
