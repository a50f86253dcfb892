"""Several shapes of one network: the vendor's JSON, as the extents of symbols.

    {"specializations": [{"batch_size": "1", "seq_len": "128"}, {"batch_size": "1", ...}]}

Extents are whole numbers, as text or as numbers; a bare list of objects is taken as well.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from configurator.errors import UsageError

Extents = tuple[tuple[str, int], ...]

# assumed: published files have up to a dozen; each is a segment, of which a container holds 64.
_MOST = 48
_LARGEST_FILE_BYTES = 1 << 20

# Eighteen digits always fit the 64 bits of an extent.
_WHOLE = re.compile(r"[0-9]{1,18}")


def read_specializations(path: Path, where: str) -> tuple[Extents, ...]:
    """The entries of a file, symbols sorted; raises `UsageError` where it is not as above.

    `where` is what the user typed to name the file, for messages.
    """
    entries = _entries(where, _json(where, path))
    if not 1 <= len(entries) <= _MOST:
        raise UsageError(f"{where}: has {len(entries)} entries, must have 1 to {_MOST}")
    return tuple(_extents(f"{where}: entry {at}", entry) for at, entry in enumerate(entries))


def merged(fixed: Extents, entry: Extents) -> Extents:
    """The extents of one entry; it decides where a symbol is defined as well."""
    return tuple(sorted((dict(fixed) | dict(entry)).items()))


def _json(where: str, path: Path) -> object:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise UsageError(f"{where}: is larger than {_LARGEST_FILE_BYTES} bytes")
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: is not JSON: {error}") from error
    return found


def _entries(where: str, document: object) -> list[object]:
    found = document.get("specializations") if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise UsageError(f'{where}: must be {{"specializations": [{{"SYMBOL": "EXTENT", ...}}]}}')
    return found


def _extents(where: str, entry: object) -> Extents:
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: must be an object of symbols and extents")
    return tuple(sorted((str(name), _extent(where, name, entry[name])) for name in entry))


def _extent(where: str, name: str, value: object) -> int:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _WHOLE.fullmatch(text) or int(text) < 1:
        raise UsageError(f"{where}: {name} is {json.dumps(value)}, must be a whole number from 1")
    return int(text)
