"""Cards as text, as a table, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from configurator.qaic_util.card import Card
from configurator.tables import grid

_TITLES = (
    "QID",
    "NSP used/total",
    "NW loaded/active",
    "DRAM used/total MB",
    "DRAM KBps",
    "NSP MHz",
    "DDR MHz",
    "Temp C",
    "Power/TDP W",
)


def note(cards: Sequence[Card]) -> str:
    """What is no measurement, in one line."""
    sku = cards[0].spec.sku.value
    return (
        f"simulated card ({sku}), idle: temperature and power are estimates, N/A is what only a "
        "real card has"
    )


def listing_text(cards: Sequence[Card]) -> str:
    """A block for each card: its QID, then an indented line for each field."""
    lines: list[str] = []
    for card in cards:
        lines.append(f"QID {card.qid}")
        lines += [f"\t{field.title}:{field.text}" for field in card.fields()]
    return "\n".join(lines)


def listing_json(cards: Sequence[Card]) -> str:
    """A document with the list `device_info`, an object for each card."""
    infos = [
        {"qid": card.qid, **{field.key: field.value for field in card.fields()}} for card in cards
    ]
    return json.dumps({"device_info": infos, "note": note(cards)}, indent=4) + "\n"


def table_text(cards: Sequence[Card]) -> str:
    """A line for each card."""
    return grid([_TITLES, *(_cells(card) for card in cards)])


def _cells(card: Card) -> tuple[str, ...]:
    return (
        str(card.qid),
        f"0/{card.spec.nsps}",
        "0/0",
        f"0/{card.ddr_mib}",
        "0",
        str(card.nsp_mhz),
        "N/A",
        str(card.idle_c),
        f"{card.idle_w:.1f}/{card.cap_w:.1f}",
    )
