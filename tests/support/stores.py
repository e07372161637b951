# SPDX-License-Identifier: Apache-2.0
"""Stores for tests: a fresh SQLite file, or a fresh database of a real PostgreSQL server that the tests start."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ktrial.results.model import StoredMeasurement, StoredRun, StoredSession

_USER = "postgres"


def a_session(name: str = "s1", **fields: Any) -> StoredSession:
    """Return a session with sensible values for everything that a test does not set."""
    values: dict[str, Any] = {
        "suite": "quick",
        "label": "stock",
        "origin": "bench",
        "kernel_release": "6.18",
        "boot_id": "boot",
        "started_unix_ms": 1_700_000_000_000,
        "runs": {},
        "document": {"session": name, "seed": 7},
    }
    return StoredSession(session=name, **{**values, **fields})


def a_run(number: int, value: float = 1.5, **fields: Any) -> StoredRun:
    """Return a good run of `wakeup` with one number."""
    measured = StoredMeasurement(outcome="p99", value=value, unit="s", direction="lower", original=f"{value} s")
    values: dict[str, Any] = {
        "session": "s1",
        "benchmark": "wakeup",
        "state": "ok",
        "warm_up": False,
        "started_unix_ms": 1_700_000_000_000 + number,
        "measurements": (measured,),
        "raw": {},
    }
    values |= fields
    document = {
        "run": number,
        "measurements": [
            {"outcome": one.outcome, "value": one.value, "unit": one.unit}
            | {"direction": one.direction, "original": one.original}
            for one in values["measurements"]
        ],
    }
    return StoredRun(number=number, **{"document": document, **values})


def a_record(number: int, tool: str, session: str = "s1", **fields: Any) -> StoredRun:
    """Return a run whose document is a whole `ktrial.run/1` record; without `fields` it has no measurements."""
    document: dict[str, Any] = {
        "schema": "ktrial.run/1",
        "run": number,
        "benchmark": tool,
        "tool": tool,
        "tool_version": None,
        "argv": [f"/usr/bin/{tool}"],
        "steps": [],
        "parameters": {},
        "round": 1,
        "position": number,
        "measurements": [],
        "details": {},
        "notes": [],
        "exit": {"status": 0, "signal": None, "failed": None, "timed_out": False, "interrupted": False},
        "resources": {"wall_ns": 1_500_000_000, "user_us": 10, "system_us": 20, "max_rss_bytes": 1 << 20},
        "failure": None,
        "background": None,
        "prepared": [],
        "network": None,
        "raw": {},
    }
    document |= fields
    measured = tuple(StoredMeasurement(**one) for one in document["measurements"])
    state = "ok" if document["failure"] is None else "failed"
    return a_run(number, session=session, benchmark=tool, measurements=measured, document=document, state=state)


@contextmanager
def postgresql() -> Iterator[str]:
    """Yield the URL of a server for this test, which is reached through a socket in a private folder."""
    assert os.geteuid() == 0, "PostgreSQL is started as its own user: run ./check as root"
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    owner = pwd.getpwnam(_USER)
    folder = Path(tempfile.mkdtemp(prefix="ktrial-pg-"))
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    become = ["setpriv", "--reuid", _USER, "--regid", _USER, "--init-groups", "--"]
    log = (folder / "log").open("wb")
    try:
        subprocess.run(
            [*become, binaries / "initdb", "-D", folder / "data", "--auth=trust", "--no-sync", "-E", "UTF8"],
            stdout=log,
            stderr=log,
            check=True,
        )
        server = subprocess.Popen(
            [*become, binaries / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="],
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(binaries / "pg_isready", folder)
            yield f"postgresql://{_USER}@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
    finally:
        log.close()
        shutil.rmtree(folder)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """Yield the URL of an empty database on a server."""
    import psycopg

    name = "t" + secrets.token_hex(6)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _wait_for(is_ready: Path, folder: Path) -> None:
    end = time.monotonic() + 30
    while subprocess.run([is_ready, "-q", "-h", folder], check=False).returncode != 0:
        assert time.monotonic() < end, (folder / "log").read_text()
        time.sleep(0.05)
