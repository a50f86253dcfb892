"""What SQLite needs to be a store: folders, journal, locks, and messages that name the file."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from configurator.errors import StoreError

# assumed: far longer than any writer holds the lock, and short enough to notice a stuck one.
LOCK_TIMEOUT_S = 60


def sqlite_engine(url: URL, create: bool) -> Engine:
    """An engine on the file of `url`; with `create`, its folder is made if it is missing."""
    path = _path(url)
    if create:
        _make_folder(path)
    elif path is None or not path.exists():
        raise StoreError(
            f"{path or 'memory'}: there is no such database; tune first, or give another --storage"
        )
    if path is not None and not create and _is_at_rest(path):
        return _prepared(_at_rest_engine(path), create)
    return _prepared(create_engine(url, connect_args={"timeout": LOCK_TIMEOUT_S}), create)


def _path(url: URL) -> Path | None:
    """The file; None for a database in memory, and for SQLite's own `file:` names."""
    name = url.database or ":memory:"
    return None if name == ":memory:" or name.startswith("file:") else Path(name)


def _make_folder(path: Path | None) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path.parent}: cannot make this folder: {error.strerror}; give another --storage"
        ) from error


def _is_at_rest(path: Path) -> bool:
    """Whether nobody can be writing: SQLite would need to create files beside it to read it."""
    return not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()


def _at_rest_engine(path: Path) -> Engine:
    name = f"file:{quote(str(path.absolute()))}?immutable=1"
    return create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(name, uri=True, check_same_thread=False),
    )


def _prepared(engine: Engine, write: bool) -> Engine:
    begin = "BEGIN IMMEDIATE" if write else "BEGIN"

    @event.listens_for(engine, "connect")
    def on_connect(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        # Python's driver would begin transactions late, and none around CREATE TABLE.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA schema_version")
        if write and cursor.fetchone() == (0,):
            # Nothing is in the file yet. Readers never wait for the writer in this mode.
            cursor.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the last trials, which the next run measures again.
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
