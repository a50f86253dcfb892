"""A store in any database that SQLAlchemy speaks to. Records never leave this package."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from configurator.errors import StoreError, UsageError
from configurator.records import Study, TrialRow
from configurator.store import base
from configurator.store.schema import (
    ADDED_COLUMNS,
    APPLICATION,
    SCHEMA_VERSION,
    Base,
    SchemaRecord,
    StudyRecord,
    TrialRecord,
    row_of,
    study_of,
    study_record,
    trial_record,
)
from configurator.store.sqlite import sqlite_engine


class SqlStore:
    """See `Store`. One transaction for each call; connections close with the store."""

    def __init__(self, url: str, create: bool) -> None:
        parsed = _parsed(url)
        self._place = _place(parsed)
        self._engine = _engine(parsed, create)
        weakref.finalize(self, self._engine.dispose)
        with _reported(self._place), self._engine.begin() as connection:
            _open_schema(connection, self._place, create)

    def create_study(self, study: Study) -> None:
        """See `Store.create_study`."""
        base.refuse_study(study)
        try:
            with self._session() as session:
                session.add(study_record(study))
        except IntegrityError as error:
            raise base.study_exists(study.name) from error

    def study(self, name: str) -> Study:
        """See `Store.study`."""
        with self._session() as session:
            return study_of(_known(session, name))

    def studies(self) -> tuple[Study, ...]:
        """See `Store.studies`."""
        with self._session() as session:
            found = session.scalars(select(StudyRecord)).all()
            return tuple(sorted(map(study_of, found), key=lambda study: study.name))

    def add(self, row: TrialRow) -> None:
        """See `Store.add`."""
        base.refuse_row(row)
        try:
            with self._session() as session:
                session.add(trial_record(row))
        except IntegrityError as error:
            raise self._refusal(row) from error

    def rows(self, study: str) -> tuple[TrialRow, ...]:
        """See `Store.rows`."""
        query = select(TrialRecord).where(TrialRecord.study == study).order_by(TrialRecord.number)
        with self._session() as session:
            _known(session, study)
            return tuple(map(row_of, session.scalars(query)))

    def find(self, study: str, candidate_key: str) -> TrialRow | None:
        """See `Store.find`."""
        query = select(TrialRecord).filter_by(study=study, candidate_key=candidate_key)
        with self._session() as session:
            _known(session, study)
            record = session.scalars(query).one_or_none()
            return None if record is None else row_of(record)

    def next_number(self, study: str) -> int:
        """See `Store.next_number`."""
        query = select(func.max(TrialRecord.number)).where(TrialRecord.study == study)
        with self._session() as session:
            _known(session, study)
            highest = session.scalar(query)
            return 0 if highest is None else highest + 1

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with _reported(self._place), Session(self._engine) as session, session.begin():
            yield session

    def _refusal(self, row: TrialRow) -> StoreError:
        """Which of its promises the database kept by refusing `row`."""
        twin = self.find(row.study, row.candidate.key())
        if twin is None or twin.number == row.number:
            return base.number_taken(row)
        return base.candidate_taken(row, twin.number)


def _known(session: Session, name: str) -> StudyRecord:
    record = session.get(StudyRecord, name)
    if record is None:
        raise base.unknown_study(name, sorted(session.scalars(select(StudyRecord.name))))
    return record


def _parsed(url: str) -> URL:
    # No part of the text is repeated: it may hold a password.
    refusal = UsageError("--storage is no database URL; write it like sqlite:///configurator.db")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise refusal from error
    if parsed.get_backend_name() == "sqlite" and parsed.host:
        raise refusal  # two slashes where three belong
    return parsed


def _place(url: URL) -> str:
    """How messages call the database: its file, or its URL without password."""
    if url.get_backend_name() == "sqlite" and url.database:
        return url.database
    return url.render_as_string(hide_password=True)


def _engine(url: URL, create: bool) -> Engine:
    try:
        if url.get_backend_name() == "sqlite":
            return sqlite_engine(url, create)
        return create_engine(url)
    except (ArgumentError, ModuleNotFoundError) as error:
        raise StoreError(
            f"{_place(url)}: cannot use this kind of database: {_line(error)}; install its "
            "driver, or give another --storage"
        ) from error


def _open_schema(connection: Connection, place: str, create: bool) -> None:
    """Check that the database is ours and of a schema that we know; with `create`, fill it."""
    tables = inspect(connection).get_table_names()
    if create and not tables:
        Base.metadata.create_all(connection)
        row = {"application": APPLICATION, "version": SCHEMA_VERSION}
        connection.execute(insert(SchemaRecord), row)
        return
    version = _schema_version(connection, tables)
    if version == 1:
        version = _upgrade(connection)
    if version is None:
        held = f"has the tables {', '.join(sorted(tables))}" if tables else "is empty"
        raise StoreError(f"{place}: not a database of {APPLICATION}: it {held}; {_LEVER}")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{place}: has schema version {version}, this release knows {SCHEMA_VERSION}; "
            f"upgrade {APPLICATION}, or give another --storage"
        )


def _upgrade(connection: Connection) -> int:
    """From schema 1: the added columns are NULL in the rows that are there."""
    for column in ADDED_COLUMNS:
        kind = column.type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {column.table} ADD {column.name} {kind}")
    connection.execute(update(SchemaRecord).values(version=SCHEMA_VERSION))
    return SCHEMA_VERSION


def _schema_version(connection: Connection, tables: list[str]) -> int | None:
    """None where another program made the database."""
    table = SchemaRecord.__tablename__
    if table not in tables:
        return None
    columns = {column["name"] for column in inspect(connection).get_columns(table)}
    if not {"application", "version"} <= columns:
        return None
    query = select(SchemaRecord.version).where(SchemaRecord.application == APPLICATION)
    return connection.scalar(query)


_LEVER = "give another --storage"


@contextmanager
def _reported(place: str) -> Iterator[None]:
    """What the database, its driver or its file refuses, as one line for the user."""
    try:
        yield
    except IntegrityError:
        raise  # the caller knows which promise this is about
    except (SQLAlchemyError, OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"{place}: {_line(error)}; {_LEVER}") from error


def _line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return " ".join(str(cause).split()) or type(cause).__name__
