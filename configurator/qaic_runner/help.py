"""What `-h` prints, from the table of options."""

from __future__ import annotations

from configurator.qaic_runner.flags import SECTIONS
from configurator.vendor_cli.help import options_text

PROGRAM = "qaic-runner-sim"

USAGE = (
    f"usage: {PROGRAM} -t DIR [-a N] [-S N] [-T N] [-n N | --time SECONDS] [-i FILE ...]\n"
    "       [--aic-profiling-type latency --aic-profiling-num-samples N] [option ...]"
)

_ABOUT = """\
Runs what qaic-exec-sim or `configurator compile` wrote, as the vendor's qaic-runner does, on the
simulated card that it was compiled for (or the one that the environment variable AIC_SKU names,
see `configurator devices`). Options have one dash or two; a value follows '=' or is the next
argument.

All times are simulated: they repeat from one inference to the next, and from run to run. Latency
files show inferences of the steady state, again and again; a statistics file is written for the
first measured inference of each activation, of a network compiled with profiling. Random inputs
are the same each time, floats from -1 to 1 and integers of 0 and 1. Values are computed, tile by
tile as on the card, only where outputs are to be written or compared.

[no effect]  accepted: nothing that is modelled depends on it; -v names those that were given
[refused]    ends the run: what comes out would not be what was asked

Exit codes: 0 ok, 1 anything that failed, 130 interrupted.
"""


def help_text() -> str:
    """All options by section."""
    return options_text(USAGE, _ABOUT, SECTIONS)
