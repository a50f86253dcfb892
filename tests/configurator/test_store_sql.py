"""The database itself: what else may lie in its place, and what a killed writer leaves."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.target import Sku, device
from configurator.errors import StoreError, UsageError
from configurator.records import Study, Workflow
from configurator.space import space_for
from configurator.store import Store, open_store
from tests.configurator import device_model

ROOT = Path(__file__).parents[2]
SPACE = space_for(Workflow.THROUGHPUT, device(Sku.STD))
NOBODY = 65534
KEY_OF_SCHEMA_1 = "2790a7af25117502f127d5d6ae62188dd1da12f91a89a68b9cb661bf6aaf71eb"


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def a_study() -> Study:
    return Study(
        name="study",
        model_path="a.onnx",
        model_sha256="cd" * 32,
        batch_symbol=None,
        symbols=(),
        sku=Sku.STD,
        workflow=Workflow.THROUGHPUT,
        seed=0,
        created_at=device_model.WHEN,
    )


def filled(path: Path) -> Store:
    store = open_store(url_of(path), create=True)
    store.create_study(a_study())
    store.add(device_model.complete(0, SPACE.candidate((0, 0, 0))))
    return store


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "studies.db"


def test_what_one_store_wrote_another_reads(path: Path) -> None:
    written = filled(path)
    for create in (False, True):
        again = open_store(url_of(path), create=create)
        assert again.studies() == written.studies()
        assert again.rows("study") == written.rows("study")


def test_missing_folders_are_made(tmp_path: Path) -> None:
    filled(tmp_path / "a" / "b" / "studies.db")
    assert (tmp_path / "a" / "b" / "studies.db").is_file()


def test_reading_makes_no_database(tmp_path: Path) -> None:
    missing = tmp_path / "a" / "none.db"
    with pytest.raises(StoreError, match=r"none\.db: there is no such database; tune first"):
        open_store(url_of(missing), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_newer_schema_is_refused_with_both_versions(path: Path) -> None:
    filled(path)
    change(path, "UPDATE schema_version SET version = 3")
    for create in (False, True):
        with pytest.raises(StoreError, match=r"schema version 3, this release knows 2; upgrade"):
            open_store(url_of(path), create=create)


@pytest.mark.parametrize("create", [False, True])
def test_a_database_of_schema_1_is_upgraded(path: Path, create: bool) -> None:
    written = filled(path)
    added = ("input_shapes", "clock_hz", "power_w")
    for table, columns in (("studies", added[:1]), ("trials", added)):
        for column in columns:
            change(path, f"ALTER TABLE {table} DROP COLUMN {column}")
    change(path, "UPDATE schema_version SET version = 1")
    for _ in range(2):
        upgraded = open_store(url_of(path), create=create)
        assert upgraded.studies() == written.studies()
        assert upgraded.rows("study") == written.rows("study")
    asked = SPACE.candidate((1, 0, 0))
    shaped = replace(asked, compile=replace(asked.compile, input_shapes=(("x", (1, 3)),)))
    again = open_store(url_of(path), create=True)
    again.add(device_model.complete(1, shaped))
    assert again.rows("study")[1].candidate == shaped


def test_candidates_of_schema_1_keep_their_keys() -> None:
    """Pinned: the digest that databases of schema 1 hold for this candidate."""
    assert SPACE.candidate((0, 0, 0)).key() == KEY_OF_SCHEMA_1


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE places (id INTEGER)",
        "CREATE TABLE schema_version (installed_rank INTEGER)",
        "CREATE TABLE schema_version (application TEXT, version INTEGER)",
    ],
)
def test_another_programs_database_is_left_alone(path: Path, statement: str, create: bool) -> None:
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a database of aic-configurator: it has the tables"):
        open_store(url_of(path), create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("content", [b"hello world " * 100, b"SQLite format 3\0 cut off"])
def test_a_file_that_is_no_database_is_left_alone(
    path: Path, content: bytes, create: bool
) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"studies\.db: file is not a database; give another"):
        open_store(url_of(path), create=create)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_database_only_when_asked(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match="it is empty"):
        open_store(url_of(path), create=False)
    filled(path)


def test_a_damaged_row_is_named(path: Path) -> None:
    filled(path)
    change(path, "UPDATE trials SET state = 'unheard of'")
    with pytest.raises(StoreError, match="trial 0 of study study is stored damaged"):
        open_store(url_of(path), create=False).rows("study")
    change(path, "UPDATE trials SET state = 'complete', latency_mean_s = NULL, busy_hmx = NULL")
    change(path, "UPDATE trials SET source = NULL")
    with pytest.raises(StoreError, match="trial 0 of study study is stored damaged"):
        open_store(url_of(path), create=False).rows("study")


def test_a_database_that_loses_its_table_says_so(path: Path) -> None:
    filled(path)
    change(path, "DROP TABLE trials")
    with pytest.raises(StoreError, match=r"studies\.db: no such table: trials; give another"):
        open_store(url_of(path), create=False).rows("study")


@pytest.mark.parametrize(
    "below", ["studies.db", "studies.db/deeper.db"], ids=["a folder", "below a file"]
)
def test_a_place_that_cannot_hold_a_file_is_named(tmp_path: Path, below: str) -> None:
    if "/" in below:
        (tmp_path / "studies.db").touch()
    else:
        (tmp_path / "studies.db").mkdir()
    with pytest.raises(StoreError, match=r"studies\.db: .*give another --storage"):
        open_store(url_of(tmp_path / below), create=True)


@pytest.mark.parametrize(
    "text", ["", "studies.db", "sqlite://studies.db", "postgresql://u:hunter2@host:port/db"]
)
def test_a_text_that_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it like sqlite:///") as caught:
        open_store(text, create=True)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_kind_of_database_is_refused_without_the_password() -> None:
    with pytest.raises(StoreError, match="cannot use this kind of database") as caught:
        open_store("nonesuch://me:hunter2@host/db", create=True)
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


OPEN_AS_GUEST = f"""
import os, sys
from configurator.errors import StoreError
from configurator.store import open_store
open_store("sqlite://", create=True).studies()  # a guest may not be allowed to load modules
if os.geteuid() == 0:
    os.setuid({NOBODY})  # root has every permission
try:
    store = open_store(sys.argv[1], create=sys.argv[2] == "create")
    print(len(store.rows("study")))
except StoreError as error:
    print(error)
"""


def opened_as_guest(path: Path, mode: str) -> str:
    """What a user without permission to write sees."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AS_GUEST, url_of(path), mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_read_only_folder_is_read_and_not_written(open_folder: Path) -> None:
    path = open_folder / "studies.db"
    filled(path)
    path.chmod(0o444)
    open_folder.chmod(0o555)
    assert opened_as_guest(path, "read") == "1"
    assert "readonly database; give another --storage" in opened_as_guest(path, "create")
    refusal = opened_as_guest(open_folder / "new.db", "create")
    assert "unable to open database file; give another --storage" in refusal
    assert [entry.name for entry in open_folder.iterdir()] == ["studies.db"]


def test_a_reader_sees_whole_rows_while_a_killed_writer_leaves_whole_rows(path: Path) -> None:
    open_store(url_of(path), create=True).create_study(a_study())
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.configurator.store_writer", url_of(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    with writer, writer.stdout as said:
        confirmed = int(said.readline())
        reader = open_store(url_of(path), create=False)
        seen = [len(reader.rows("study")) for _ in range(5)]
        assert seen == sorted(seen)
        while confirmed < 40:
            confirmed = int(said.readline())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        confirmed = max([confirmed, *map(int, said.read().split())])
    left = open_store(url_of(path), create=True)
    rows = left.rows("study")
    # What the writer called stored is stored; at most one more had no time to be called so.
    assert confirmed + 1 <= len(rows) <= confirmed + 2
    expected = zip(range(len(rows)), SPACE.candidates(), strict=False)
    assert list(rows) == [device_model.complete(number, asked) for number, asked in expected]
    left.add(device_model.complete(left.next_number("study"), SPACE.candidate((40, 4, 9))))


def test_the_file_speaks_sql(path: Path) -> None:
    store = filled(path)
    (row,) = store.rows("study")
    assert row.measurement is not None
    query = "SELECT inferences_per_s, latency_p99_s, busy_ddr, reason, cores, mos FROM trials"
    with closing(sqlite3.connect(path)) as connection:
        measured = row.measurement
        assert connection.execute(query).fetchall() == [
            (measured.inferences_per_s, measured.latency.p99_s, measured.busy.ddr, "", 1, None)
        ]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
