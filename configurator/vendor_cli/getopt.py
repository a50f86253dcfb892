"""An argument vector as the options that it gives, by the rules of getopt_long_only.

One dash or two, a value after `=` or as the next argument, or right behind a letter (`-a3`). An
option that is given again replaces the earlier one. Names are never shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configurator.errors import UsageError
from configurator.vendor_cli.flag import Flag
from configurator.vendor_cli.line import CommandLine, Given

Names = Mapping[str, Flag]
"""Flags by their names without dashes."""


class UnknownOptionError(UsageError):
    """An argument that is no option, answered in getopt's words."""

    def __init__(self, argument: str) -> None:
        super().__init__(f"unrecognized option '{argument}'")


def parse(arguments: Sequence[str], names: Names) -> CommandLine:
    """The options of `arguments`; raises `UsageError` naming the first that cannot be."""
    waiting, given = list(arguments), []
    while waiting:
        given.append(_take(waiting, names))
    return CommandLine(tuple(given))


def _take(waiting: list[str], names: Names) -> Given:
    """The option that comes next, with the argument that is its value."""
    argument = waiting.pop(0)
    name, value = _split(argument, names)
    flag = names[name]
    spelled = next(known for known in flag.names if known.lstrip("-") == name)
    if flag.value is None:
        if value is not None:
            raise UsageError(f"option '{argument}' doesn't allow an argument")
        return Given(flag, spelled)
    if value is None:
        value = _next_value(argument, flag, waiting)
    fault = flag.value.fault(value)
    if fault is not None:
        raise UsageError(f"{spelled}={value}: {fault}")
    return Given(flag, spelled, value)


def _split(argument: str, names: Names) -> tuple[str, str | None]:
    """Name without dashes, and the value that the same argument holds."""
    dashes = len(argument) - len(argument.lstrip("-"))
    name, equals, value = argument[dashes:].partition("=")
    if dashes in (1, 2) and name in names:
        return name, value if equals else None
    letter = argument[1:2]
    if dashes == 1 and letter in names and names[letter].value is not None:
        return letter, argument[2:]
    raise UnknownOptionError(argument)


def _next_value(argument: str, flag: Flag, waiting: list[str]) -> str:
    # No value of any option starts with a dash, but for paths, which can follow `=`.
    if not waiting or waiting[0].startswith("-"):
        assert flag.value is not None
        raise UsageError(f"option '{argument}' requires an argument: {flag.value.syntax}")
    return waiting.pop(0)
