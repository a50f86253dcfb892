"""Choose settings, measure them, remember the results, show them.

`Session` runs a compiled network from Python; it is imported when it is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line must start without it
    from configurator.session import Session as Session


def __getattr__(name: str) -> object:
    if name != "Session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from configurator.session import Session

    return Session
