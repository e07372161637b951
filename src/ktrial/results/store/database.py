# SPDX-License-Identifier: Apache-2.0
"""Open a store by path or URL, update its schema with Alembic, and translate errors of the database."""

from __future__ import annotations

import errno
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.mounts import MOUNTS, file_system
from ktrial.kit.own_code import install_step

#: Key of the lock that lets one process at a time create tables; any number that other programs hardly use.
_ONE_AT_A_TIME = 0x6B747269616C
_SCRIPTS = "ktrial.results.store:migrations"


def migrate(engine: sa.Engine, found: str | None, shown: str) -> None:
    """Update the schema from version `found` (None for a new store) to the newest, in one transaction.

    Raise KtrialError if a newer ktrial made the store.
    """
    # Most stores are up to date, and Alembic takes longer to load than the rest of this module.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise KtrialError(
            f"a newer ktrial made {shown} (its schema is {found})",
            hint="update ktrial, or name another store with --store",
        )
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ONE_AT_A_TIME})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


#: The version of the schema that this ktrial writes: the newest file in `migrations/versions`.
HEAD = "0004"
#: The table that holds the version.
_VERSIONS = "alembic_version"
#: Seconds to wait for another process that writes.
_PATIENCE_S = 30
#: File systems whose locks are unreliable between machines.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs")
)
_DRIVER = "psycopg[binary]>=3.2"
_FORMS = "postgresql://USER@HOST/NAME, or a file's path"
#: A connection string of libpq instead of a URL or path: it may hold a password, so it is not shown.
_CONNECTION_WORDS = re.compile(r"\bpassword\s*=|^postgres(ql)?(\+\w+)?:")
#: Keys in the query of a URL whose values are never shown.
_SECRETS = ("password", "sslpassword")
_ELSEWHERE = "name another place:  ktrial --store FILE …, or --store postgresql://USER@HOST/NAME"


#: SQLite's index of its log is a file of this size.
_LEAST_SPACE_BYTES = 32 << 10


class Database:
    """An open store; `shown` is its name without a password."""

    def __init__(self, engine: sa.Engine, shown: str) -> None:
        self.engine = engine
        self.shown = shown
        self._held: sa.PoolProxiedConnection | None = None

    @classmethod
    def open(cls, url: str) -> Database:
        """Open a file, creating it if necessary, or an existing PostgreSQL database. Raise BadInput for other URLs."""
        if "://" not in url:
            if _CONNECTION_WORDS.search(url):
                raise BadInput("cannot open the store: its name is not a URL", hint=f"write {_FORMS}")
            return cls._open_file(Path(url))
        try:
            parsed = sa.make_url(url)
        except (exc.ArgumentError, ValueError):
            raise BadInput("cannot open the store: its name is not a URL", hint=f"write {_FORMS}") from None
        if parsed.get_backend_name() == "sqlite":
            return cls._open_file(Path(parsed.database or ""))
        if parsed.get_backend_name() != "postgresql":
            raise BadInput(
                f"cannot open the store: ktrial cannot use {parsed.get_backend_name()}", hint=f"write {_FORMS}"
            )
        if "@" in (parsed.host or ""):  # the part before the @ belongs to the password
            raise BadInput("cannot open the store: its URL has a second @", hint="write %40 for each @ in the password")
        return cls._open_server(parsed)

    @classmethod
    def _open_file(cls, path: Path) -> Database:
        _check_place(path)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": _PATIENCE_S}, poolclass=sa.NullPool
        )
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        database = cls(engine, str(path))
        old_mask = os.umask(0o077)
        try:
            database._bring_up_to_date()
        finally:
            os.umask(old_mask)
        return database

    @classmethod
    def _open_server(cls, url: sa.URL) -> Database:
        shown = url.difference_update_query(_SECRETS).render_as_string(hide_password=True)
        try:
            engine = sa.create_engine(
                url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args={"connect_timeout": 10}
            )
        except ModuleNotFoundError:
            raise KtrialError(
                f"{shown} needs the PostgreSQL driver, which is not installed",
                hint=install_step(_DRIVER, "postgres"),
            ) from None
        database = cls(engine, shown)
        database._bring_up_to_date()
        return database

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._speaking("read"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction: at its end either all changes are on disk, or none."""
        with self._speaking("write"), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    def hold(self) -> None:
        """Keep a connection open until `close`.

        SQLite does a slow clean-up each time the last connection closes.
        """
        if self._held is None:
            with self._speaking("open"):
                self._held = self.engine.raw_connection()

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        self.engine.dispose()

    def _bring_up_to_date(self) -> None:
        try:
            with self._speaking("open"):
                found = self._version()
                if found != HEAD:
                    migrate(self.engine, found, self.shown)
        except BaseException:
            self.close()
            raise

    def _version(self) -> str | None:
        with self.engine.connect() as connection:
            if not sa.inspect(connection).has_table(_VERSIONS):
                return None
            return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()

    @contextmanager
    def _speaking(self, verb: str) -> Iterator[None]:
        """Turn an error of the database into a KtrialError, which never includes the password."""
        try:
            yield
        except exc.DBAPIError as error:
            lines = str(error.orig).strip().splitlines() or ["no reason given"]
            first = lines[0].partition(" with text ")[0]  # sqlite3 quotes a whole document that it cannot decode
            if first == "disk I/O error" and _has_no_space(Path(self.shown)):
                lines = [first := os.strerror(errno.ENOSPC)]
            raise KtrialError(f"cannot {verb} {self.shown}: {first}", hint=_hint(" ".join(lines))) from None


def _has_no_space(path: Path) -> bool:
    """Return whether the file system of a store is full; SQLite may not report that for the files beside the store."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LEAST_SPACE_BYTES


def insert_new(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an INSERT that leaves existing rows unchanged."""
    # Each loads the drivers of its own server; that of this connection is loaded already.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()


def _check_place(path: Path) -> None:
    """Raise KtrialError if a store cannot be created or must not be used at this path."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mounts = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise KtrialError(f"cannot open {path}: {error.strerror}", hint=_ELSEWHERE) from None
    if not os.access(folder, os.W_OK):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        why = "its file system is mounted read-only" if read_only else "this user may not write to its folder"
        raise KtrialError(f"cannot open {path}: {why}, and even reading needs a lock file there", hint=_ELSEWHERE)
    kind = file_system(str(folder.resolve()), mounts)
    if kind in _NETWORK:
        raise KtrialError(
            f"cannot open {path} as a store: it is on {kind}, a network file system whose locks do not protect "
            "a database",
            hint=_ELSEWHERE,
        )
    if path.is_dir():
        raise BadInput(f"cannot open {path} as a store: it is a folder", hint=f"name a file: {path}/results.db")
    if path.exists() and not path.is_file():
        raise BadInput(f"cannot open {path} as a store: it is a device, a pipe or a socket", hint=_ELSEWHERE)
    if path.exists() and path.stat().st_size and not _is_sqlite(path):
        raise BadInput(f"cannot open {path} as a store: it is not an SQLite database", hint=_ELSEWHERE)
    if path.exists() and _is_of_others(path):
        raise BadInput(f"cannot open {path} as a store: it is a database of another program", hint=_ELSEWHERE)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        raise KtrialError(f"cannot read {path}: {reason}", hint=_ELSEWHERE) from None


def _is_of_others(path: Path) -> bool:
    """Return whether a database has only tables of other programs; change no byte of it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return False  # opening it reports the fault
    return bool(names) and _VERSIONS not in names


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    _use_wal(connection)
    for pragma in ("foreign_keys = ON", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a new store to a write-ahead log.

    Try again for a while: SQLite refuses at once while another process switches the same store.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end_s:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    """Lock the database for writing at the start of a transaction.

    Two processes that first read and then write would block each other.
    """
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _hint(message: str) -> str:
    if "is full" in message or "No space left" in message:
        return "free some space; everything recorded before is safe"
    if "readonly" in message or "read-only" in message or "unable to open" in message:
        return _ELSEWHERE
    if "runs.session_key, runs.number" in message or "duplicate key" in message:
        return "wait for the other ktrial, which measures the same session, or add --fresh"
    if "database is locked" in message:
        return "wait for the other ktrial, which writes to this store"
    if "password" in message or "authentication" in message:
        return "check the user, and the password in PGPASSWORD or ~/.pgpass"
    if "malformed" in message or "not a database" in message or "Could not decode" in message:
        return "move the damaged file away, and import your bundles into a new store"
    is_reached = "connect" not in message and "resolve host" not in message
    return _ELSEWHERE if is_reached else "check that the server is running and that this user can reach it"
