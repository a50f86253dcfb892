"""From a database URL to a store."""

from __future__ import annotations

from configurator.store.base import Store


def open_store(url: str, create: bool) -> Store:
    """The store at an SQLAlchemy `url`; with `create`, a missing database is made.

    `UsageError` for a text that is no URL, `StoreError` for a database that is missing, not ours,
    of a newer schema, unreadable, or (with `create`) unwritable.
    """
    from configurator.store.sql import SqlStore

    return SqlStore(url, create)
