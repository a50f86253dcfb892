"""What `-h` prints, from the table of options."""

from __future__ import annotations

from configurator.qaic_util.flags import SECTIONS
from configurator.vendor_cli.help import options_text

PROGRAM = "qaic-util-sim"

USAGE = (
    f"usage: {PROGRAM} -q [-d QID ...] [-f NAME==VALUE ...] [-j FILE]\n"
    f"       {PROGRAM} -t SECONDS [-d QID ...]"
)

_ABOUT = """\
Lists a simulated card as the vendor's qaic-util lists a real one: the Standard card, or the one
that the environment variable AIC_SKU names (see `configurator devices`). A card of several SoCs
shows each under a QID of its own. Options have one dash or two; a value follows '=' or is the
next argument.

The card is ready and idle: nothing stays on it between two commands. Counts, capacities and rates
are those that the simulator works with. Board power is the simulator's of an idle card, and the
temperature an estimate from it. N/A (null in JSON) is what only a real card has: its address,
serial numbers, firmware and the clocks of its networks.

[refused]    ends the command: what comes out would not be what was asked

Exit codes: 0 ok, 1 anything that failed, 130 interrupted.
"""


def help_text() -> str:
    """All options by section."""
    return options_text(USAGE, _ABOUT, SECTIONS)
