# SPDX-License-Identifier: Apache-2.0
"""Sessions and runs in the store, which records them as soon as they begin and end."""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
import zstandard

from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.results.model import RunState, StoredMeasurement, StoredRun, StoredSeries, StoredSession
from ktrial.results.store.database import Database, insert_new
from ktrial.results.store.schema import artefacts, blobs, measurements, runs, series, sessions, states

#: systemd's identifier of a machine; host names are not unique.
MACHINE_ID = "/etc/machine-id"


def this_writer() -> str:
    """Return `HOST/MACHINE BOOT PID START`, which no other process has, not even a later one."""
    return f"{socket.gethostname()}/{_machine()} {_boot_id()} {os.getpid()} {_start_ticks(os.getpid())}"


def is_gone(writer: str) -> bool:
    """Return whether the process has certainly ended; a process of another machine is assumed to be alive."""
    parts = writer.split()
    if len(parts) != 4 or not parts[2].isdecimal():
        return True
    where, boot, process, start = parts
    host, _, machine = where.partition("/")
    if host != socket.gethostname() or ("/" in where and machine != _machine()):
        return False
    return boot != _boot_id() or start != str(_start_ticks(int(process)))


def _machine() -> str:
    """Return a hash of the machine's identifier, which is confidential; empty if there is none."""
    try:
        number = Path(MACHINE_ID).read_bytes().strip()
    except OSError:
        return ""
    return hashlib.sha256(b"ktrial " + number).hexdigest()[:16] if number else ""


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_ticks(process: int) -> int | None:
    """Return the start of a process in clock ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


#: Stands for an unknown direction in the tables.
_UNKNOWN = ""
#: The number of runs per INSERT.
_PIECE = 1000
#: zstd's level of compression for raw output.
_LEVEL = 3
#: A message lists at most this many names.
_NAMED = 3
_OTHER_STORE = "import a bundle that has this output into another store: ktrial --store FILE import BUNDLE"


class Store:
    """All sessions and runs that were measured or imported."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = this_writer()
        self._keys: dict[str, int] = {}
        self._series: dict[tuple[str, str, str, str], int] = {}

    @property
    def shown(self) -> str:
        return self._database.shown

    @property
    def database(self) -> Database:
        return self._database

    def close(self) -> None:
        self._database.close()

    # Writing

    def begin(self, session: StoredSession, plan: str | None = None) -> None:
        """Record the beginning of a session; `plan` is the hash of what it will measure."""
        with self._writing() as connection:
            self._begin(connection, session, plan, self._writer)

    def start(self, session: str, number: int, benchmark: str, started_unix_ms: int, *, warm_up: bool = False) -> None:
        """Record the beginning of a run, so that it is known even if its writer dies."""
        with self._writing() as connection:
            connection.execute(
                sa.insert(runs).values(
                    session_key=self._key(connection, session),
                    number=number,
                    benchmark=benchmark,
                    state="running",
                    warm_up=int(warm_up),
                    started_unix_ms=started_unix_ms,
                    writer=self._writer,
                )
            )

    def save(self, run: StoredRun, raw: Mapping[str, bytes]) -> None:
        """Record the end of a run: its record, numbers and raw output, in one transaction."""
        with self._writing() as connection:
            self._save(connection, run, raw)

    def save_all(
        self,
        session: StoredSession,
        found: Iterable[tuple[StoredRun, Mapping[str, bytes]]],
        places: Mapping[str, bytes] = {},
    ) -> None:
        with self._writing() as connection:
            self._begin(connection, session, None, None)
            iterator = iter(found)
            while some := list(itertools.islice(iterator, _PIECE)):
                rows = [{"session_key": self._key(connection, run.session), **_row(run)} for run, _ in some]
                connection.execute(sa.insert(runs), rows)
                self._keep(connection, some)
            for place, data in places.items():
                self._keep_state(connection, session.session, place, data)

    def keep_state(self, session: str, place: str, data: bytes) -> None:
        """Store the machine's tunable state, replacing an earlier state; `place` is `begin`, `end` or a trial's arm."""
        with self._writing() as connection:
            self._keep_state(connection, session, place, data)

    def mark_interrupted(self, session: str | None = None, number: int | None = None) -> tuple[StoredRun, ...]:
        """Mark runs whose writer has ended, and run `number` of `session`, as interrupted; return these runs."""
        with self._database.reading() as connection:
            rows = connection.execute(_RUN_ROWS.where(runs.c.state == "running")).all()
        gone = [
            row
            for row in rows
            if row.writer is None or (row.session, row.number) == (session, number) or is_gone(row.writer)
        ]
        if not gone:
            return ()
        with self._writing() as connection:
            for row in gone:
                here = (runs.c.session_key == row.session_key) & (runs.c.number == row.number)
                change = sa.update(runs).where(here, runs.c.state == "running", runs.c.writer == row.writer)
                connection.execute(change.values(state="interrupted", writer=None))
        return tuple(_run(row, "interrupted") for row in gone)

    def take_up(self, plan: str) -> str | None:
        """Take over the newest session of `plan` and return its name.

        Return None if there is no such session, or if its writer is alive.
        """
        return self._take_up(
            sa.select(sessions).where(sessions.c.plan == plan).order_by(sessions.c.key.desc()).limit(1)
        )

    def take_up_session(self, name: str) -> bool:
        """Take over a session; return False if its writer is alive."""
        return self._take_up(sa.select(sessions).where(sessions.c.session == name)) is not None

    def _take_up(self, chosen: sa.Select[Any]) -> str | None:
        with self._writing() as connection:
            row = connection.execute(chosen.with_for_update()).first()
            if row is None or (row.writer not in (None, self._writer) and not is_gone(row.writer)):
                return None
            connection.execute(sa.update(sessions).where(sessions.c.key == row.key).values(writer=self._writer))
        return str(row.session)

    # Reading

    def sessions(self) -> tuple[StoredSession, ...]:
        counted = sa.select(runs.c.session_key, runs.c.state, sa.func.count()).group_by(
            runs.c.session_key, runs.c.state
        )
        with self._database.reading() as connection:
            counts: dict[int, dict[RunState, int]] = {}
            for key, state, count in connection.execute(counted):
                counts.setdefault(key, {})[state] = count
            rows = connection.execute(
                sa.select(sessions).order_by(sessions.c.started_unix_ms.desc(), sessions.c.key.desc())
            )
            return tuple(_session(row, counts.get(row.key, {})) for row in rows)

    def session(self, name: str) -> StoredSession:
        """Return the session with this name or unambiguous prefix. Raise BadInput if several match or none does."""
        every = self.sessions()
        matches = [one for one in every if one.session.startswith(name)]
        exact = [one for one in matches if one.session == name]
        if exact or len(matches) == 1:
            return (exact or matches)[0]
        if matches:
            names = " or ".join(one.session for one in matches[:_NAMED])
            raise BadInput(
                f"{len(matches)} sessions begin with {name!r}", hint=f"write more of the name, such as {names}"
            )
        raise UnknownName("session", name, [one.session for one in every], hint="run `ktrial runs` to list sessions")

    def runs(self, session: str) -> Iterator[StoredRun]:
        with self._database.reading() as connection:
            key = self._key(connection, session)
            raw: dict[int, dict[str, str]] = {}
            listed = sa.select(artefacts.c.number, artefacts.c.name, artefacts.c.sha256)
            for number, name, digest in connection.execute(listed.where(artefacts.c.session_key == key)):
                raw.setdefault(number, {})[name] = digest
            for row in connection.execute(_RUN_ROWS.where(runs.c.session_key == key).order_by(runs.c.number)):
                yield _run(row, row.state, raw.get(row.number, {}))

    def raw(self, digest: str) -> bytes:
        with self._database.reading() as connection:
            return _blob(connection, digest)

    def states(self, session: str) -> dict[str, str]:
        with self._database.reading() as connection:
            key = self._key(connection, session)
            listed = sa.select(states.c.place, states.c.sha256).where(states.c.session_key == key)
            return {row.place: row.sha256 for row in connection.execute(listed)}

    def grouped(self) -> tuple[StoredSeries, ...]:
        """Return number, mean and range of each outcome's values in good runs, by benchmark and label."""
        own = (
            sa.select(
                measurements.c.series_key,
                measurements.c.session_key,
                sa.func.count().label("n"),
                sa.func.sum(measurements.c.value).label("total"),
                sa.func.min(measurements.c.value).label("minimum"),
                sa.func.max(measurements.c.value).label("maximum"),
            )
            .group_by(measurements.c.series_key, measurements.c.session_key)
            .subquery()
        )
        chosen = (
            sa.select(
                series.c.benchmark,
                series.c.outcome,
                series.c.unit,
                series.c.direction,
                sessions.c.label,
                sa.func.sum(own.c.n).label("n"),
                sa.func.sum(own.c.total).label("total"),
                sa.func.min(own.c.minimum).label("minimum"),
                sa.func.max(own.c.maximum).label("maximum"),
            )
            .select_from(own.join(series, series.c.key == own.c.series_key))
            .join(sessions, sessions.c.key == own.c.session_key)
            .group_by(series.c.key, sessions.c.label)
            .order_by(series.c.benchmark, series.c.outcome, sessions.c.label)
        )
        with self._database.reading() as connection:
            return tuple(_series_of(row) for row in connection.execute(chosen))

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """Open a transaction. If it fails, drop the cached keys, because their rows may not exist."""
        try:
            with self._database.writing() as connection:
                yield connection
        except BaseException:
            self._keys.clear()
            self._series.clear()
            raise

    def _begin(self, connection: sa.Connection, session: StoredSession, plan: str | None, writer: str | None) -> None:
        taken = sa.select(sessions.c.key).where(sessions.c.session == session.session)
        if connection.execute(taken).scalar() is not None:
            name = session.session
            raise KtrialError(
                f"cannot store session {name}: it exists already", hint=f"run `ktrial show {name}` to see this session"
            )
        inserted = connection.execute(
            sa.insert(sessions).values(
                session=session.session,
                suite=session.suite,
                label=session.label,
                origin=session.origin,
                plan=plan,
                writer=writer,
                kernel_release=session.kernel_release,
                boot_id=session.boot_id,
                started_unix_ms=session.started_unix_ms,
                document=msgspec.json.encode(session.document).decode(),
            )
        )
        key = inserted.inserted_primary_key
        assert key is not None, "a table with its own key returns it"
        self._keys[session.session] = int(key[0])

    def _save(self, connection: sa.Connection, run: StoredRun, raw: Mapping[str, bytes]) -> None:
        key = self._key(connection, run.session)
        here = (runs.c.session_key == key) & (runs.c.number == run.number)
        change = sa.update(runs).where(here, runs.c.state == "running").values(**_row(run))
        if not connection.execute(change).rowcount:
            connection.execute(sa.insert(runs).values(session_key=key, **_row(run)))
        self._keep(connection, [(run, raw)])

    def _keep(self, connection: sa.Connection, found: Iterable[tuple[StoredRun, Mapping[str, bytes]]]) -> None:
        """Store the numbers that count, and all raw output."""
        numbers: list[dict[str, Any]] = []
        outputs: list[dict[str, Any]] = []
        for run, raw in found:
            here = {"session_key": self._key(connection, run.session), "number": run.number}
            counted = () if run.warm_up or run.state != "ok" else run.measurements
            numbers += [
                {"series_key": self._series_key(connection, run.benchmark, one), **here, "value": one.value}
                for one in counted
            ]
            outputs += [{**here, "name": name, "sha256": _put_blob(connection, data)} for name, data in raw.items()]
        if numbers:
            connection.execute(sa.insert(measurements), numbers)
        if outputs:
            connection.execute(sa.insert(artefacts), outputs)

    def _keep_state(self, connection: sa.Connection, session: str, place: str, data: bytes) -> None:
        name = _put_blob(connection, data)
        key = self._key(connection, session)
        connection.execute(sa.delete(states).where(states.c.session_key == key, states.c.place == place))
        connection.execute(sa.insert(states).values(session_key=key, place=place, sha256=name))

    def _key(self, connection: sa.Connection, session: str) -> int:
        if session not in self._keys:
            key = connection.execute(sa.select(sessions.c.key).where(sessions.c.session == session)).scalar()
            if key is None:
                raise UnknownName("session", session, (), hint="run `ktrial runs` to list sessions")
            self._keys[session] = key
        return self._keys[session]

    def _series_key(self, connection: sa.Connection, benchmark: str, one: StoredMeasurement) -> int:
        names = (benchmark, one.outcome, one.unit, one.direction or _UNKNOWN)
        if names in self._series:
            return self._series[names]
        columns = (series.c.benchmark, series.c.outcome, series.c.unit, series.c.direction)
        values = {column.name: name for column, name in zip(columns, names, strict=True)}
        connection.execute(insert_new(connection, series).values(**values))
        here = (column == values[column.name] for column in columns)
        key = connection.execute(sa.select(series.c.key).where(*here)).scalar_one()
        self._series[names] = key
        return int(key)


_RUN_ROWS = sa.select(runs, sessions.c.session).join(sessions, sessions.c.key == runs.c.session_key)


def _row(run: StoredRun) -> dict[str, Any]:
    return {
        "number": run.number,
        "benchmark": run.benchmark,
        "state": run.state,
        "warm_up": int(run.warm_up),
        "started_unix_ms": run.started_unix_ms,
        "writer": None,
        "document": None if run.document is None else msgspec.json.encode(run.document).decode(),
    }


def _session(row: Any, counts: Mapping[RunState, int]) -> StoredSession:
    return StoredSession(
        session=row.session,
        suite=row.suite,
        label=row.label,
        origin=row.origin,
        kernel_release=row.kernel_release,
        boot_id=row.boot_id,
        started_unix_ms=row.started_unix_ms,
        runs=dict(counts),
        document=msgspec.json.decode(row.document),
    )


def _run(row: Any, state: RunState, raw: Mapping[str, str] | None = None) -> StoredRun:
    document = None if row.document is None else msgspec.json.decode(row.document)
    numbers = () if document is None else document.get("measurements", ())
    return StoredRun(
        session=row.session,
        number=row.number,
        benchmark=row.benchmark,
        state=state,
        warm_up=bool(row.warm_up),
        started_unix_ms=row.started_unix_ms,
        measurements=tuple(msgspec.convert(one, StoredMeasurement) for one in numbers),
        raw=raw or {},
        document=document,
    )


def _series_of(row: Any) -> StoredSeries:
    return StoredSeries(
        benchmark=row.benchmark,
        outcome=row.outcome,
        unit=row.unit,
        direction=row.direction or None,
        label=row.label,
        n=int(row.n),
        mean=float(row.total) / int(row.n),
        minimum=row.minimum,
        maximum=row.maximum,
    )


def _put_blob(connection: sa.Connection, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    if connection.execute(sa.select(blobs.c.sha256).where(blobs.c.sha256 == name)).scalar() is None:
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
        connection.execute(insert_new(connection, blobs).values(sha256=name, size_bytes=len(data), packed=packed))
    return name


def _blob(connection: sa.Connection, name: str) -> bytes:
    """Return the bytes of this name. Raise KtrialError if they are missing or damaged."""
    row = connection.execute(sa.select(blobs.c.size_bytes, blobs.c.packed).where(blobs.c.sha256 == name)).first()
    if row is None:
        raise KtrialError(f"raw output {name[:12]}… is missing from the store", hint=_OTHER_STORE)
    try:
        data = zstandard.ZstdDecompressor().decompress(row.packed, max_output_size=max(1, row.size_bytes))
    except zstandard.ZstdError:
        data = b""
    if hashlib.sha256(data).hexdigest() != name:
        raise KtrialError(
            f"raw output {name[:12]}… is damaged in the store: it differs from what was recorded",
            hint=_OTHER_STORE,
        )
    return data
