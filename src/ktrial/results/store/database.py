# SPDX-License-Identifier: Apache-2.0
"""Opens a store by path or URL, brings its schema up to date with Alembic, and says what a database complains of."""

from __future__ import annotations

import errno
import logging
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.dialects import postgresql, sqlite

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.mounts import MOUNTS, file_system

#: Any number that others hardly use: one process at a time makes the tables.
_ONE_AT_A_TIME = 0x6B747269616C
_SCRIPTS = "ktrial.results.store:migrations"


def migrate(engine: sa.Engine, found: str | None, shown: str) -> None:
    """From version `found` (None: a new store) to the newest, in one transaction."""
    # Most stores are of the newest, and Alembic takes longer to load than the rest of this module.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise KtrialError(
            f"{shown} was made by a newer ktrial (its schema is {found})", hint="use that ktrial, or another --store"
        )
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ONE_AT_A_TIME})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


#: The version of the schema that this ktrial writes: the newest file in `migrations/versions`.
HEAD = "0003"
#: The table that tells the version.
_VERSIONS = "alembic_version"
#: Seconds to wait for another process that writes.
_PATIENCE_S = 30
#: File systems on which locks of several machines are not to be relied upon.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs")
)
_DRIVER = "psycopg[binary]>=3.2"
_FORMS = "postgresql://USER@HOST/NAME, or a file's path"
#: What libpq takes for a connection, and no file is called: it may hold a password, so it is not shown.
_CONNECTION_WORDS = re.compile(r"\bpassword\s*=|^postgres(ql)?(\+\w+)?:")
#: In the query of a URL: never shown.
_SECRETS = ("password", "sslpassword")
_ELSEWHERE = "name another place:  ktrial --store FILE …, or --store postgresql://USER@HOST/NAME"


class Database:
    """One store, opened; `shown` is its name without a password."""

    def __init__(self, engine: sa.Engine, shown: str) -> None:
        self.engine = engine
        self.shown = shown
        self._held: sa.PoolProxiedConnection | None = None

    @classmethod
    def open(cls, url: str) -> Database:
        """Open or make it: a file, or a PostgreSQL database that is there already."""
        if "://" not in url:
            if _CONNECTION_WORDS.search(url):
                raise BadInput("--store: not a URL", hint=f"write {_FORMS}")
            return cls._open_file(Path(url))
        try:
            parsed = sa.make_url(url)
        except (exc.ArgumentError, ValueError):
            raise BadInput("--store: not a URL", hint=f"write {_FORMS}") from None
        if parsed.get_backend_name() == "sqlite":
            return cls._open_file(Path(parsed.database or ""))
        if parsed.get_backend_name() != "postgresql":
            raise BadInput(
                f"--store: {parsed.get_backend_name()} is not a database that ktrial knows",
                hint=f"write {_FORMS}",
            )
        if "@" in (parsed.host or ""):  # what stands before it is a part of the password
            raise BadInput(
                "--store: not a URL: it has a second @", hint="in a password write %40 for @, or use ~/.pgpass"
            )
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
                hint=f"{sys.executable} -m pip install '{_DRIVER}'",
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
        """A transaction: all of it is on the disk at the end, or nothing."""
        with self._speaking("write"), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    def hold(self) -> None:
        """Keep a connection until the end: the last of a file that closes tidies up, and that takes long."""
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
        """Turn what the database says into one message; the password is never part of it."""
        try:
            yield
        except exc.DBAPIError as error:
            said = str(error.orig).strip().splitlines() or ["no reason given"]
            first = said[0].partition(" with text ")[0]  # sqlite3 quotes a whole document that it cannot decode
            raise KtrialError(f"cannot {verb} {self.shown}: {first}", hint=_hint(" ".join(said))) from None


def insert_new(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an INSERT that leaves a row that is there already as it is."""
    kind: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return kind.insert(table).on_conflict_do_nothing()


def _check_place(path: Path) -> None:
    """Raise KtrialError for a file that cannot be made or must not be used there."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mounts = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise KtrialError(f"cannot open {path}: {error.strerror}", hint=_ELSEWHERE) from None
    if not os.access(folder, os.W_OK):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        why = "its file system is mounted read-only" if read_only else "this user may not write in its folder"
        raise KtrialError(f"cannot open {path}: {why}, and a store that is only read is locked too", hint=_ELSEWHERE)
    kind = file_system(str(folder.resolve()), mounts)
    if kind in _NETWORK:
        raise KtrialError(
            f"{path} lies on {kind}, a network file system, whose locks do not protect a database",
            hint=_ELSEWHERE,
        )
    if path.is_dir():
        raise BadInput(f"--store {path} is a folder", hint=f"name a file: {path}/results.db")
    if path.exists() and not path.is_file():
        raise BadInput(f"--store {path} is not a store: a device, a pipe or a socket", hint=_ELSEWHERE)
    if path.exists() and path.stat().st_size and not _is_sqlite(path):
        raise BadInput(f"--store {path} is not a store: another kind of file", hint=_ELSEWHERE)
    if path.exists() and _is_of_others(path):
        raise BadInput(f"--store {path} is not a store: a database of another program", hint=_ELSEWHERE)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        raise KtrialError(f"cannot read {path}: {reason}", hint=_ELSEWHERE) from None


def _is_of_others(path: Path) -> bool:
    """Return whether a database has tables and none of ours; looked at without changing a byte of it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return False  # what is wrong with it is said when it is opened
    return bool(names) and _VERSIONS not in names


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    for pragma in ("foreign_keys = ON", "journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    """A transaction is a writer from its start: two that read first and write later would block each other."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _hint(said: str) -> str:
    if "is full" in said or "No space left" in said:
        return "what was recorded before is kept; free some space"
    if "readonly" in said or "read-only" in said or "unable to open" in said:
        return _ELSEWHERE
    if "runs.session_key, runs.number" in said or "duplicate key" in said:
        return "another ktrial goes on with the same session: wait for it, or measure with --fresh"
    if "database is locked" in said:
        return "another ktrial writes to it; wait for it to end"
    if "password" in said or "authentication" in said:
        return "check user and password (PGPASSWORD or ~/.pgpass)"
    if "malformed" in said or "not a database" in said or "Could not decode" in said:
        return "the file is damaged: move it away, or restore it from a bundle"
    reached = "connect" not in said and "resolve host" not in said
    return _ELSEWHERE if reached else "is the server running, and can this user reach it?"
