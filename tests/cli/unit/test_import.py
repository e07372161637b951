# SPDX-License-Identifier: Apache-2.0
"""`ktrial import` on real files and a real store."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from ktrial.kit.errors import BadInput
from ktrial.kit.files import read_file
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.imports import FOLDER
from tests.support.tree import FakeRoot

GOOD = FOLDER / "hyperfine" / "1.15-two-commands" / "input.json"
TABLE = FOLDER / "csv" / "made-march" / "input.csv"
COLUMNS = FOLDER / "csv" / "made-columns-are-groups" / "input.csv"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    return FakeRoot(tmp_path / "root")


def kept(tmp_path: Path) -> Store:
    return Store(Database.open(str(tmp_path / "state" / "ktrial" / "results.db")))


def test_runs_are_in_the_store(machine: FakeRoot, tmp_path: Path) -> None:
    ran = machine.run("import", str(TABLE), "--value", "time(sec)", "--by", "march", "--block", "hostname", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["schema"] == "ktrial.imported/1"
    sessions = {one["label"]: one["session"] for one in ran.json["files"][0]["sessions"]}
    store = kept(tmp_path)
    runs = list(store.runs(sessions["x86-64-v3"]))
    assert [(run.number, run.state, [one.value for one in run.measurements]) for run in runs] == [
        (2, "ok", [60.1]),
        (4, "failed", []),
    ]
    assert store.raw(runs[0].raw["file"]) == TABLE.read_bytes()
    assert [(one.benchmark, one.label, one.n) for one in store.grouped()] == [
        ("input", "x86-64", 2),
        ("input", "x86-64-v3", 1),
    ]
    store.close()


def test_columns_that_are_groups_are_compared_and_checked_again(machine: FakeRoot, tmp_path: Path) -> None:
    ran = machine.run("import", str(COLUMNS), "--groups", "stock,tuned", "--value", "time_s", "--direction", "lower")
    assert ran.status == 0, ran.err
    compared = machine.run("compare", "stock", "tuned", "--json")
    assert "order of the runs is unknown" in compared.out
    (tmp_path / "c.json").write_text(compared.out)
    bundle = str(tmp_path / "b.tar.zst")
    assert machine.run("bundle", bundle, "--comparison", str(tmp_path / "c.json")).status == 0
    checked = machine.run("recheck", bundle)
    assert (checked.status, "all equal" in checked.out) == (0, True), checked.out + checked.err


def test_the_same_file_again(machine: FakeRoot) -> None:
    first = machine.run("import", str(GOOD))
    assert first.status == 0
    assert "became 2 sessions" in first.out
    second = machine.run("import", str(GOOD))
    assert (second.status, second.out) == (4, "")
    assert "was already imported as 2" in second.err
    assert machine.run("import", str(GOOD), "--again").status == 0


def test_a_dry_run_makes_nothing(machine: FakeRoot, tmp_path: Path) -> None:
    ran = machine.run("import", str(GOOD), "--dry-run")
    assert (ran.status, "would become 2 sessions" in ran.out) == (0, True)
    store = kept(tmp_path)
    assert store.sessions() == ()
    store.close()


def test_what_was_kept_before_an_error_is_shown(machine: FakeRoot, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"results": [')
    ran = machine.run("import", str(GOOD), str(tmp_path / "bad.json"), "--format", "hyperfine")
    assert ran.status == 2
    assert "became 2 sessions" in ran.out
    assert "bad.json:1:" in ran.err


def test_a_pipe_is_refused_and_not_waited_for(machine: FakeRoot, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Timer(10, (tmp_path / "pipe").write_bytes, [b"late"])  # wakes what waits
    writer.daemon = True
    writer.start()
    began = time.monotonic()
    ran = machine.run("import", str(tmp_path / "pipe"))
    assert (ran.status, "not a regular file" in ran.err) == (2, True)
    assert time.monotonic() - began < 5
    writer.cancel()


def test_names_of_sessions_can_be_copied_from_the_list(machine: FakeRoot) -> None:
    label = "a-label-of-more-than-twenty-letters"
    assert machine.run("import", str(GOOD), "--label", label).status == 0
    listed = machine.run("runs", "--json").json["sessions"][0]["session"]
    lines = machine.run("runs").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(f"{listed} ") for line in lines)


def test_no_such_file(machine: FakeRoot, tmp_path: Path) -> None:
    ran = machine.run("import", str(tmp_path / "none"))
    assert (ran.status, "none: no such file" in ran.err) == (2, True)


def test_files_that_are_too_large_or_no_files(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(BadInput, match=r"large.json: too large: 2 GiB \(maximum 256 MiB\)"):
        read_file(large, 256 * 1024**2)
    with pytest.raises(BadInput, match="not a regular file"):
        read_file(tmp_path, 100)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="not a regular file"):
        read_file(tmp_path / "pipe", 100)
    (tmp_path / "small").write_bytes(b"abc")
    assert read_file(tmp_path / "small", 3) == b"abc"
