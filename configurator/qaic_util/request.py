"""Options as which cards are shown, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.target import Sku, device
from configurator.errors import UsageError
from configurator.qaic_util.card import Card, cards_of
from configurator.vendor_cli.card import SKU_VARIABLE, sku_named
from configurator.vendor_cli.flag import Effect
from configurator.vendor_cli.line import CommandLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is shown of `cards`: a table every `period_s`, or the listing, here or in `json`."""

    cards: tuple[Card, ...]
    period_s: int | None
    json: Path | None


def request_of(given: CommandLine, environment: Mapping[str, str] = os.environ) -> Request:
    """What the options ask for; raises `UsageError` where they cannot be followed."""
    for flag in given.having(Effect.REFUSED):
        raise UsageError(f"{flag.name}: {flag.remark}")
    period_s, json = given.whole("-t"), given.text("-j")
    if period_s is None and not given.has("-q"):
        raise UsageError("nothing is asked; give -q for the listing or -t SECONDS for a table")
    if period_s is not None and (given.has("-q") or json is not None):
        raise UsageError("-t is a table of its own; leave out -q and -j, or -t")
    return Request(
        cards=_cards(given, sku_named(environment) or Sku.STD),
        period_s=period_s,
        json=None if json is None else Path(json),
    )


def _cards(given: CommandLine, sku: Sku) -> tuple[Card, ...]:
    cards = _chosen(given, sku)
    for condition in given.texts("-f"):
        cards = tuple(card for card in cards if _says(card, condition))
        if not cards:
            raise UsageError(f"-f={condition}: no card's listing says so")
    return cards


def _chosen(given: CommandLine, sku: Sku) -> tuple[Card, ...]:
    cards = cards_of(device(sku))
    asked = [int(text) for text in given.texts("-d")] or [card.qid for card in cards]
    for qid in asked:
        if qid >= len(cards):
            raise UsageError(
                f"-d={qid}: the simulated card ({sku.value}) has {len(cards)} SoCs, QID 0 to "
                f"{len(cards) - 1}; name another card with {SKU_VARIABLE}"
            )
    return tuple(cards[qid] for qid in dict.fromkeys(asked))


def _says(card: Card, condition: str) -> bool:
    name, _, value = condition.partition("==")
    lines = {field.title.lower(): field.text for field in card.fields()}
    if name.strip().lower() not in lines:
        raise UsageError(f"-f={condition}: the listing has no line {name.strip()!r}")
    return lines[name.strip().lower()] == value.strip()
