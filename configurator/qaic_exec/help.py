"""What `-h` and `--usage` print, from the table of options."""

from __future__ import annotations

from configurator.qaic_exec.flags import SECTIONS
from configurator.vendor_cli.help import options_text

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


def help_text() -> str:
    """All options by section."""
    return options_text(USAGE, _ABOUT, SECTIONS)
