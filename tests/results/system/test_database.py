# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with the place of a store."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_run, a_session, postgresql

CHECKOUT = Path(__file__).resolve().parents[3]


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small tmpfs."""
    assert os.geteuid() == 0, "this test mounts a tmpfs: run ./check as root"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(store: Store) -> None:
    """Save runs until one fails."""
    for number in itertools.count(1):
        store.save(a_run(number), {"stdout": os.urandom(50_000)})


def test_a_full_disk_keeps_what_was_recorded(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=2m") as folder:
        store = Store(Database.open(str(folder / "results.db")))
        store.begin(a_session())
        with pytest.raises(KtrialError, match=r"cannot write .*results.db: .*full") as full:
            fill(store)
        assert "everything recorded before is safe" in (full.value.hint or "")
        numbers = [run.number for run in store.runs("s1")]
        assert len(numbers) > 3
        assert numbers == list(range(1, len(numbers) + 1))
        store.close()


def test_a_read_only_file_system_is_said(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "fixed", "size=1m,ro") as folder,
        pytest.raises(KtrialError, match=r"cannot open .*: its file system is mounted read-only") as refused,
    ):
        Database.open(str(folder / "results.db"))
    assert "--store" in (refused.value.hint or "")


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/home {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr("ktrial.results.store.database.MOUNTS", str(mounts))
    with pytest.raises(KtrialError, match="is on nfs4, a network file system"):
        Database.open(str(tmp_path / "results.db"))
    assert not (tmp_path / "results.db").exists()


@pytest.mark.parametrize(
    "url, said",
    [
        ("mysql://host/name", "ktrial cannot use mysql"),
        ("://", "not a URL"),
        ("sqlite:////proc/nowhere/x.db", "cannot open"),
    ],
)
def test_other_places_are_refused(url: str, said: str) -> None:
    with pytest.raises(KtrialError, match=said):
        Database.open(url)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG and more")
    with pytest.raises(BadInput, match="it is not an SQLite database"):
        Database.open(str(tmp_path / "picture.png"))
    with pytest.raises(BadInput, match="is a folder"):
        Database.open(str(tmp_path))
    assert (tmp_path / "picture.png").read_bytes() == b"\x89PNG and more"


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    with pytest.raises(BadInput, match="a database of another program"):
        Database.open(str(path))
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["places.sqlite"]


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "results.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    with pytest.raises(KtrialError, match="cannot open") as damaged:
        Database.open(str(tmp_path / "results.db"))
    assert "damaged" in (damaged.value.hint or "")


def test_text_that_is_no_utf8_is_damage(tmp_path: Path) -> None:
    url = str(tmp_path / "results.db")
    store = Store(Database.open(url))
    store.begin(a_session("s1"))
    with closing(sqlite3.connect(url)) as connection:
        connection.execute("UPDATE sessions SET document = CAST(x'7b22ff22' AS TEXT)")
        connection.commit()
    with pytest.raises(KtrialError, match=r"cannot read .*: Could not decode") as damaged:
        store.sessions()
    store.close()
    assert "with text" not in damaged.value.message
    assert "damaged" in (damaged.value.hint or "")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "results.db")
    with pytest.raises(BadInput, match="a device, a pipe or a socket"):
        Database.open(str(tmp_path / "results.db"))


def test_the_driver_is_to_be_installed_where_ktrial_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(KtrialError, match="needs the PostgreSQL driver") as missing:
        Database.open("postgresql://me@127.0.0.1:1/none")
    (extra,) = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["postgres"]
    assert missing.value.hint == f"{sys.executable} -m pip install '{extra}'"


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    Database.open(str(tmp_path / "deep" / "results.db")).close()
    assert (tmp_path / "deep" / "results.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "url, said",
    [
        ("postgresql://me:secret-word@127.0.0.1:1/none", "me:***@127"),
        ("postgresql://me@127.0.0.1:1/none?password=secret-word&connect_timeout=3", "me@127"),
        ("postgresql://me:a@secret-word@127.0.0.1:1/none", "a second @"),
        ("postgresql://me:a@b:secret-word@127.0.0.1:1/none", "not a URL"),
        ("postgresql://me:secret-word@127.0.0.1:port/none", "not a URL"),
        ("host=127.0.0.1 user=me password=secret-word", "not a URL"),
        ("postgresql:me:secret-word@127.0.0.1", "not a URL"),
    ],
)
def test_a_password_is_never_shown(url: str, said: str) -> None:
    with pytest.raises(KtrialError) as failed:
        Database.open(url)
    assert said in failed.value.message
    assert "secret-word" not in failed.value.message + (failed.value.hint or "")


def test_a_wrong_password_is_said(server: str, tmp_path: Path) -> None:
    folder = Path(server.partition("host=")[2])
    access = folder / "data" / "pg_hba.conf"
    before = access.read_text()
    access.write_text("local all locked scram-sha-256\n" + before)
    for order in ("CREATE ROLE locked LOGIN PASSWORD 'right'", "SELECT pg_reload_conf()"):
        subprocess.run(
            ["psql", "-q", "-h", folder, "-U", "postgres", "-c", order], stdout=subprocess.DEVNULL, check=True
        )
    try:
        with pytest.raises(KtrialError, match="password authentication failed") as refused:
            Database.open(f"postgresql://locked:wrong-word@/postgres?host={folder}")
        assert "wrong-word" not in refused.value.message
        assert "PGPASSWORD" in (refused.value.hint or "")
    finally:
        access.write_text(before)


def test_a_server_that_goes_away_is_said_and_found_again() -> None:
    with postgresql() as url:
        store = Store(Database.open(url))
        store.begin(a_session())
        store.save(a_run(1), {})
    with pytest.raises(KtrialError, match="cannot write"):
        store.save(a_run(2), {})
    store.close()


def test_a_new_store_waits_for_who_makes_it_at_once(tmp_path: Path) -> None:
    """SQLite itself waits for a reader, but not for a writer, before it changes how a file is journaled."""
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        end.start()
        Database.open(str(path)).close()
        end.join()
        assert not other.in_transaction
    with closing(sqlite3.connect(path)) as reopened:
        assert reopened.execute("PRAGMA journal_mode").fetchone() == ("wal",)
