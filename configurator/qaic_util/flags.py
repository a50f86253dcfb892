"""Every option of the real tool that public material names, and what it does here.

Spelling is that of the vendor's open tool and of its system-management documentation.
"""

from __future__ import annotations

from configurator.vendor_cli import values
from configurator.vendor_cli.flag import Effect, Flag
from configurator.vendor_cli.flag import flag as _flag

_NO_GROUPS = "a simulated card is always on its own; run qaic-runner-sim on one QID"


def _condition() -> values.Value:
    def fault(text: str) -> str | None:
        name, equals, value = text.partition("==")
        fits = name.strip() and equals and value.strip()
        return None if fits else "must be NAME==VALUE, like 'Status==Ready'"

    return values.Value("NAME==VALUE", fault, "Status==Ready")


_QUERIES = (
    _flag("-q", None, "list the cards, with all that is known of them"),
    _flag("-t", values.whole(1), "a table, again after so many seconds, until stopped"),
)

_CHOICES = (
    _flag("-d", values.whole(0), "show this card, by its QID", many=True),
    _flag("-f", _condition(), "show cards of which a line of the listing says so", many=True),
    _flag("-j", values.path("FILE"), "write the listing to this file, as JSON"),
)

_GROUPS = (
    _flag(
        "-a",
        None,
        "let networks use several cards",
        effect=Effect.REFUSED,
        remark=_NO_GROUPS,
    ),
    _flag(
        "-s",
        None,
        "tell whether networks may use several cards",
        effect=Effect.REFUSED,
        remark=_NO_GROUPS,
    ),
)

_REPORTS = (_flag("-h --help", None, "print this text, and exit"),)

SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    ("Queries", _QUERIES),
    ("What is shown", _CHOICES),
    ("Several cards", _GROUPS),
    ("Help", _REPORTS),
)

FLAGS: tuple[Flag, ...] = tuple(flag for _, section in SECTIONS for flag in section)

BY_NAME: dict[str, Flag] = {name.lstrip("-"): flag for flag in FLAGS for name in flag.names}
"""By the name without its dashes: one or two are the same."""
