"""The operators that the importer takes, with the opsets in which ONNX defines them."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import defs

from compiler.frontend.evaluate import RANDOM
from compiler.frontend.function_body import is_function
from compiler.frontend.model import OLDEST_OPSET
from compiler.operators import INTERNAL_DOMAIN, OPERATORS


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """One operator of a model file; `since` and `until` are opsets of its domain.

    They are `None` for a domain that ONNX does not define.
    """

    domain: str
    name: str
    since: int | None
    until: int | None


def supported_operators() -> tuple[SupportedOperator, ...]:
    """All of them, sorted by domain and name; the default domain is `ai.onnx`."""
    history = _history()
    found = [
        SupportedOperator(domain or "ai.onnx", name, *history.get((domain, name), (None, None)))
        for domain, name in {*OPERATORS, *_taken_apart()}
        if domain != INTERNAL_DOMAIN
    ]
    return tuple(sorted(found, key=lambda operator: (operator.domain, operator.name)))


def _taken_apart() -> set[tuple[str, str]]:
    """Operators that become others: loops and layers as their steps, and those with a body."""
    names = ("If", "Loop", "Scan", "LSTM", "GRU", "RNN")
    schemas = [item for item in defs.get_all_schemas() if not item.deprecated]
    bodies = {
        (item.domain, item.name)
        for item in schemas
        if is_function(item.name, item.since_version, item.domain)
    }
    unusable = RANDOM | {"SequenceMap"}
    return {("", name) for name in names} | {key for key in bodies if key[1] not in unusable}


def _history() -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """First and last opset of each operator, within those that the importer reads."""
    versions: dict[tuple[str, str], list[tuple[int, bool]]] = {}
    for schema in defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), []).append(
            (schema.since_version, schema.deprecated)
        )
    return {key: _range(key[0], sorted(listed)) for key, listed in versions.items()}


def _range(domain: str, versions: list[tuple[int, bool]]) -> tuple[int, int]:
    first, (last, gone) = versions[0][0], versions[-1]
    newest = defs.onnx_opset_version() if domain == "" else last
    oldest = max(first, OLDEST_OPSET) if domain == "" else first
    return oldest, last - 1 if gone else newest
