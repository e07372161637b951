# SPDX-License-Identifier: Apache-2.0
"""The verbs that look into the store, on the command line."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.cli.main import main
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_record, a_run, a_session
from tests.support.tree import Ran, use_compiled_catalog
from tests.support.user import User, ordinary_user

PIPE = (
    b"# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n"
    b"# 2 groups == 80 processes run\n\n     Total time: 0.173 [sec]\n"
)
PARAMETERS = {"groups": 2, "loops": 200}
DETAILS = {"tasks": 80}
TIME = {"outcome": "time", "value": 0.173, "unit": "s", "direction": "lower", "original": "0.173 s"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a store in it."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    use_compiled_catalog(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def default(home: Path) -> Path:
    return home / ".local/state/ktrial/results.db"


def fill(path: Path, label: str = "stock") -> None:
    store = Store(Database.open(str(path)))
    store.begin(a_session("20261121T1", label=label))
    record = a_record(
        1,
        "perf-messaging",
        "20261121T1",
        argv=["/usr/bin/perf", "bench", "a b"],
        measurements=[TIME],
        notes=["energy of package-0 is unknown: doubt"],
        tool_version="6.1",
        parameters=PARAMETERS,
        details=DETAILS,
    )
    store.save(record, {"stdout": PIPE})
    store.save(
        a_record(2, "perf-messaging", "20261121T1", failure="ended with status 1"), {"stderr": b"\xff\x00broken"}
    )
    store.begin(a_session("20261122T1", suite="margine", started_unix_ms=1_800_000_000_000))
    store.save(a_run(1, session="20261122T1"), {})
    store.close()


def run(*argv: str) -> Ran:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    status = main(list(argv), out, err)
    out.flush()
    return Ran(status, out.buffer.getvalue().decode("utf-8", "surrogateescape"), err.getvalue())


def test_sessions_are_listed(home: Path) -> None:
    assert run("runs").err == f"ktrial: {default(home)} is empty\n"
    fill(default(home))
    first, second = (" ".join(line.split()) for line in run("runs").out.splitlines()[2:])
    assert first == "20261122T1 2027-01-15 08:00 margine stock 6.18 1 good bench"
    assert second == "20261121T1 2023-11-14 22:13 quick stock 6.18 1 good, 1 failed bench"
    assert [one["session"] for one in run("runs", "--suite", "quick", "--json").json["sessions"]] == ["20261121T1"]
    assert "has no session with label none" in run("runs", "--label", "none").err


def test_a_session_and_its_runs_are_shown(home: Path) -> None:
    fill(default(home))
    text = run("show", "20261121").out
    assert re.search(r"perf-messaging +time +1 +173 +173 +173 +ms +- +less", text)
    assert "run 2, perf-messaging: failed: ended with status 1" in text
    text = run("show", "20261121/1").out
    assert "command     /usr/bin/perf bench 'a b'" in text
    assert "tool        perf-messaging 6.1" in text
    assert "ended       status 0, after 1.5 s" in text
    assert "note        energy of package-0 is unknown: doubt" in text
    assert run("show", "20261121/1", "--json").json["runs"][0]["measurements"][0]["value"] == 0.173
    assert len(run("show", "20261121", "--json").json["runs"]) == 2


def test_raw_output_comes_out_as_it_was(home: Path) -> None:
    fill(default(home))
    assert run("show", "20261121/1", "--raw", "stdout").out.encode() == PIPE
    assert run("show", "20261121/2", "--raw", "stderr").out.encode("utf-8", "surrogateescape") == b"\xff\x00broken"
    missing = run("show", "20261121/1", "--raw", "stderr")
    assert (missing.status, "use one of: stdout" in missing.err) == (2, True)
    assert run("show", "20261121", "--raw", "stdout").status == 2
    assert "use a number from 1 to 2" in run("show", "20261121/9").err
    assert run("show", "x").status == 2


def test_raw_output_is_read_again(home: Path) -> None:
    fill(default(home))
    ran = run("reparse", "20261121")
    assert ran.status == 0, ran.out
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "2 unchanged, 0 changed, 0 not parsed again")
    store = Store(Database.open(str(default(home))))
    store.begin(a_session("20261123T1"))
    changed = a_record(
        1,
        "perf-messaging",
        "20261123T1",
        parameters=PARAMETERS,
        details=DETAILS,
        measurements=[TIME | {"value": 0.2, "original": "0.2 s"}],
    )
    store.save(changed, {"stdout": PIPE})
    store.close()
    ran = run("reparse")
    assert ran.status == 1
    assert "20261123T1/1, perf-messaging: time: time 0.2 s (lower, from '0.2 s'), now time 0.173 s" in ran.out
    assert "not parsed again: 20261122T1/1: imported run" in ran.out
    assert ran.out.splitlines()[-1] == "2 unchanged, 1 changed, 1 not parsed again"
    assert run("reparse", "20261123T1", "--json").json["runs"][0]["changes"]


def test_results_are_exported(home: Path) -> None:
    fill(default(home))
    ran = run("export-runs", "20261121", "--format", "hyperfine", "-o", "out.json")
    assert (ran.status, ran.out) == (0, "")
    assert json.loads((home / "out.json").read_text())["results"][0]["times"] == [0.173]
    assert "ktrial: not in hyperfine: 1 runs that failed" in ran.err
    assert run("export-runs", "20261121", "--format", "hyperfine", "-o", "out.json").status == 2
    assert run("export-runs", "20261121", "20261122", "--format", "csv").out.count("\n") == 4
    assert run("export-runs", "20261121", "--format", "margine").out.startswith("{")
    assert run("export-runs", "20261121", "--format", "other").status == 2


def test_a_bundle_is_made(home: Path) -> None:
    fill(default(home), label=f"of {os.uname().nodename}")
    ran = run("bundle", "out.tar.zst")
    assert ran.status == 0
    assert "out.tar.zst: 2 sessions" in ran.err
    assert "replaced: " in ran.err
    salt = home / ".local/state/ktrial/salt"
    assert (stat.S_IMODE(salt.stat().st_mode), len(salt.read_bytes())) == (0o600, 32)
    first = (home / "out.tar.zst").read_bytes()
    assert run("bundle", "out.tar.zst").status == 2
    assert run("bundle", "out.tar.zst", "--force", "--json").json["made"]["sessions"][0]["session"] == "20261121T1"
    assert (home / "out.tar.zst").read_bytes() == first
    assert list((home / ".local/state/ktrial/bundles").iterdir()) == []
    kept = run("bundle", "kept.tar.zst", "20261121", "--keep-identity")
    assert "the bundle contains names of hosts and users" in kept.err


def test_another_store_is_named_by_option_or_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home / "other.db")
    assert len(run("--store", "other.db", "runs", "--json").json["sessions"]) == 2
    monkeypatch.setenv("KTRIAL_STORE", str(home / "other.db"))
    assert len(run("runs", "--json").json["sessions"]) == 2
    assert not default(home).exists()
    monkeypatch.setenv("KTRIAL_STORE", "postgresql://me:secret-word@127.0.0.1:1/none")
    failed = run("runs")
    assert failed.status == 1
    assert "secret-word" not in failed.err + failed.out
    assert "me:***@127.0.0.1" in failed.err


def test_under_sudo_the_store_is_the_users(user: User) -> None:
    ran = user.start("/usr/bin/sudo", "./ktrial", "runs")
    assert ran.returncode == 0, ran.stderr
    assert str(default(user.home)) in ran.stderr
    assert default(user.home).stat().st_uid == user.uid
    assert user.files_of_others() == []


@pytest.fixture
def user() -> Iterator[User]:
    """An ordinary user with a checkout."""
    with ordinary_user("results") as made:
        yield made
