"""What `-h` and `--usage` print, from the table of options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from configurator.qaic_exec.flags import SECTIONS, Effect, Flag

PROGRAM = "qaic-exec-sim"

USAGE = (
    f"usage: {PROGRAM} -m=MODEL.onnx [-onnx-define-symbol=SYMBOL,N] [-aic-num-cores=N] [-ols=N]\n"
    "       [-mos=N] [-multicast-weights] -convert-to-fp16 -aic-binary-dir=DIR -compile-only\n"
    "       [option ...]"
)

_ABOUT = """\
Compiles an ONNX model as the vendor's qaic-exec does, for the simulator of this package. Options
have one dash; a value follows '=' or is the next argument. Without -compile-only the network is
also executed once, on the simulated card.

The card is a standard one, with 14 NSPs, or a Pro one with 16 where -aic-num-cores is more than
14; the environment variable AIC_SKU names another (see `configurator devices`).

[no effect]  accepted: nothing that is modelled depends on it; -v names those that were given
[warned]     accepted with a warning: a card would compute or move something else
[refused]    ends the compilation: what comes out would not be what was asked

Exit codes: 0 ok, 255 anything that failed, 130 interrupted.
"""

_WIDTH = 99
_COLUMN = 36
_MARKS = {
    Effect.APPLIED: "",
    Effect.NOTED: " [no effect]",
    Effect.WARNED: " [warned]",
    Effect.REFUSED: " [refused]",
}


def help_text() -> str:
    """All options by section."""
    lines = [USAGE, "", _ABOUT.rstrip()]
    for title, flags in SECTIONS:
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
