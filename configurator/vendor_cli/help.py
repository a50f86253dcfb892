"""What `-h` prints, from a table of options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from configurator.vendor_cli.flag import Effect, Flag

_WIDTH = 99
_COLUMN = 36
_MARKS = {
    Effect.APPLIED: "",
    Effect.NOTED: " [no effect]",
    Effect.WARNED: " [warned]",
    Effect.REFUSED: " [refused]",
}


def options_text(usage: str, about: str, sections: Sequence[tuple[str, Sequence[Flag]]]) -> str:
    """Usage, what the tool is, and all options by section."""
    lines = [usage, "", about.rstrip()]
    for title, flags in sections:
        lines += ["", f"{title}:"]
        for flag in flags:
            lines += _entry(flag)
    return "\n".join(lines)


def _entry(flag: Flag) -> Iterator[str]:
    spelled = ", ".join(_spelled(flag))
    text = flag.meaning + (f" (default: {flag.default})" if flag.default else "")
    text += (" (repeat)" if flag.many and flag.value else "") + _MARKS[flag.effect]
    left = f"  {spelled}"
    wrapped = textwrap.wrap(text, _WIDTH - _COLUMN)
    if len(left) + 2 > _COLUMN:
        yield left
    else:
        yield left.ljust(_COLUMN) + wrapped.pop(0)
    for line in wrapped:
        yield " " * _COLUMN + line


def _spelled(flag: Flag) -> Iterator[str]:
    for name in flag.names:
        yield name if flag.value is None else f"{name}={flag.value.syntax}"
