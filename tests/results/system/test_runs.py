# SPDX-License-Identifier: Apache-2.0
"""The same tests for SQLite and for a real PostgreSQL server."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from alembic import command

from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.results.model import StoredMeasurement
from ktrial.results.store.database import HEAD, Database
from ktrial.results.store.runs import Store
from ktrial.results.store.schema import metadata
from tests.support.stores import a_run, a_session

CHECKOUT = Path(__file__).resolve().parents[3]


def test_what_was_saved_is_read_again(store: Store, url: str) -> None:
    store.begin(a_session(), plan="plan")
    store.start("s1", 1, "wakeup", 5)
    run = a_run(1, raw={})
    store.save(run, {"stdout": b"p99 1.5 s\n", "stderr": b"\x00\xff" * 1000})
    other = Store(Database.open(url))
    (found,) = other.runs("s1")
    assert msgspec.structs.replace(found, raw={}) == run
    assert other.raw(found.raw["stderr"]) == b"\x00\xff" * 1000
    assert found.raw["stdout"] == hashlib.sha256(b"p99 1.5 s\n").hexdigest()
    (session,) = other.sessions()
    assert session == a_session(runs={"ok": 1})
    assert other.take_up("plan") == "s1"
    assert other.take_up("another") is None
    other.close()


def test_raw_output_is_kept_once(store: Store) -> None:
    store.begin(a_session())
    for number in (1, 2):
        store.save(a_run(number), {"stdout": b"same"})
    first, second = store.runs("s1")
    assert first.raw == second.raw


def test_failed_runs_and_warm_ups_are_kept_and_do_not_count(store: Store) -> None:
    store.begin(a_session())
    store.save(a_run(1, 100.0, warm_up=True), {})
    store.save(a_run(2, state="failed", measurements=()), {"stderr": b"broken"})
    store.save(a_run(3, 2.0), {})
    store.save(a_run(4, 4.0), {})
    (series,) = store.grouped()
    assert (series.n, series.mean, series.minimum, series.maximum) == (2, 3.0, 2.0, 4.0)
    assert [run.state for run in store.runs("s1")] == ["ok", "failed", "ok", "ok"]
    assert store.sessions()[0].runs == {"ok": 3, "failed": 1}


def test_series_are_apart_by_label_unit_and_direction(store: Store) -> None:
    untold = StoredMeasurement(outcome="p99", value=9.0, unit="s", direction=None, original="9")
    for name, label in (("s1", "stock"), ("s2", "tuned"), ("s3", None)):
        store.begin(a_session(name, label=label))
        store.save(a_run(1, session=name), {})
        store.save(a_run(2, session=name, measurements=(untold,)), {})
    groups = {(one.label, one.direction, one.n) for one in store.grouped()}
    assert groups == {(label, way, 1) for label in ("stock", "tuned", None) for way in ("lower", None)}


def test_a_run_whose_writer_was_killed_is_interrupted(store: Store, url: str) -> None:
    store.begin(a_session())
    script = (
        "import os, sys\n"
        "from ktrial.results.store.database import Database\n"
        "from ktrial.results.store.runs import Store\n"
        "Store(Database.open(sys.argv[1])).start('s1', 1, 'wakeup', 5)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, url], check=False)
    assert ended.returncode == -9
    store.start("s1", 2, "wakeup", 6)
    (gone,) = store.mark_interrupted()
    assert gone.number == 1
    assert [run.state for run in store.runs("s1")] == ["interrupted", "running"]
    assert store.mark_interrupted() == ()


def test_no_run_is_there_twice(store: Store) -> None:
    store.begin(a_session())
    store.save(a_run(1), {})
    with pytest.raises(KtrialError, match="cannot write"):
        store.save(a_run(1, 9.0), {})
    assert [run.measurements[0].value for run in store.runs("s1")] == [1.5]
    with pytest.raises(KtrialError, match="it exists"):
        store.begin(a_session())


def test_a_session_that_fails_half_way_is_not_there(store: Store) -> None:
    with pytest.raises(KtrialError, match="cannot write"):
        store.save_all(a_session(), [(a_run(1), {}), (a_run(1), {})])
    assert store.sessions() == ()
    store.save_all(a_session(), [(a_run(1), {"stdout": b"x"}), (a_run(2), {})])
    assert store.sessions()[0].runs == {"ok": 2}


def test_states_of_the_machine(store: Store) -> None:
    store.begin(a_session())
    store.keep_state("s1", "begin", b"{}")
    store.keep_state("s1", "end", b"{}")
    states = store.states("s1")
    assert set(states) == {"begin", "end"}
    assert store.raw(states["end"]) == b"{}"


def test_sessions_by_the_beginning_of_their_names(store: Store) -> None:
    for name in ("20260101T1", "20260101T2", "20260202T1"):
        store.begin(a_session(name))
    assert store.session("202602").session == "20260202T1"
    with pytest.raises(BadInput, match="2 sessions begin with '20260101'") as several:
        store.session("20260101")
    assert several.value.hint == "write more of the name, such as 20260101T2 or 20260101T1"
    with pytest.raises(UnknownName) as unknown:
        store.session("x")
    assert unknown.value.exit_status == 2


def test_two_processes_write_to_one_store(store: Store, url: str) -> None:
    script = (
        "import sys\n"
        "from ktrial.results.store.database import Database\n"
        "from ktrial.results.store.runs import Store\n"
        "from tests.support.stores import a_run, a_session\n"
        "name = sys.argv[2]\n"
        "store = Store(Database.open(sys.argv[1]))\n"
        "store.begin(a_session(name))\n"
        "for number in range(1, 41):\n"
        "    store.start(name, number, 'wakeup', number)\n"
        "    store.save(a_run(number, session=name), {'stdout': b'the same for all', name: name.encode()})\n"
    )
    names = ("a", "b", "c")
    children = [
        subprocess.Popen([sys.executable, "-c", script, url, name], cwd=CHECKOUT, env={"PYTHONPATH": "."})
        for name in names
    ]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    assert {one.session: one.runs for one in store.sessions()} == {name: {"ok": 40} for name in names}
    assert [series.n for series in store.grouped()] == [120]


def test_the_migrations_make_the_tables_that_the_code_knows(store: Store, url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    database = Database.open(url)
    with database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    database.close()


def test_a_store_of_an_older_ktrial_is_brought_up_to_date(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        upgrade = command.upgrade
        older.setattr("alembic.command.upgrade", lambda config, _: upgrade(config, "0001"))
        database = Database.open(url)
    with database.writing() as connection:
        values = "(1, 's1', 'quick', 'bench', 'plan', 5, '{}')"
        columns = "key, session, suite, origin, plan, started_unix_ms, document"
        connection.execute(sa.text(f"INSERT INTO sessions ({columns}) VALUES {values}"))
    database.close()
    store = Store(Database.open(url))
    assert [one.session for one in store.sessions()] == ["s1"]
    assert store.take_up("plan") == "s1"
    store.save(a_run(1), {})
    store.close()


def test_a_store_of_a_newer_ktrial_is_left_alone(store: Store, url: str) -> None:
    database = Database.open(url)
    with database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(KtrialError, match=r"a newer ktrial made .* \(its schema is 9999\)"):
        Database.open(url)
    database.close()


def test_damaged_raw_output_is_named(store: Store, url: str) -> None:
    store.begin(a_session())
    store.save(a_run(1), {"stdout": b"sound" * 100})
    database = Database.open(url)
    with database.writing() as connection:
        connection.execute(sa.text("UPDATE blobs SET packed = :packed"), {"packed": b"other"})
    (run,) = store.runs("s1")
    with pytest.raises(KtrialError, match="damaged in the store"):
        store.raw(run.raw["stdout"])
    database.close()


def test_a_new_store_is_made_by_many_at_once(url: str) -> None:
    script = "import sys\nfrom ktrial.results.store.database import Database\nDatabase.open(sys.argv[1]).close()\n"
    children = [subprocess.Popen([sys.executable, "-c", script, url]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
