"""One option of a vendor tool, and what it does here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from configurator.vendor_cli.values import Value


class Effect(Enum):
    """What an option does here.

    APPLIED  what it does in the real tool
    NOTED    nothing, since nothing that is modelled depends on it; -v names those that were given
    WARNED   nothing, although a card would compute or move something else; a warning says so
    REFUSED  ends the command, since what comes out would not be what was asked
    """

    APPLIED = "applied"
    NOTED = "noted"
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. `names` are its spellings with their dashes, the first is the one shown.

    `value` is `None` where it takes none. `remark` says what a card would do that does not happen
    here (WARNED), or what cannot be done and what to do instead (REFUSED).
    """

    names: tuple[str, ...]
    value: Value | None
    meaning: str
    default: str = ""
    many: bool = False
    effect: Effect = Effect.APPLIED
    remark: str = ""

    @property
    def name(self) -> str:
        """The spelling that is shown."""
        return self.names[0]


def flag(
    names: str,
    value: Value | None,
    meaning: str,
    *,
    default: str = "",
    many: bool = False,
    effect: Effect = Effect.APPLIED,
    remark: str = "",
) -> Flag:
    """One option; its spellings in one text, with blanks between."""
    return Flag(tuple(names.split()), value, meaning, default, many, effect, remark)
