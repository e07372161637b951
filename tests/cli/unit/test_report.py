# SPDX-License-Identifier: Apache-2.0
"""`ktrial report` and `ktrial publish` on files as `ktrial compare --json` writes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ktrial.judge.model.comparison import Comparison
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.comparisons import two_arms
from tests.support.told_trials import messaging_trial
from tests.support.tree import FakeRoot

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return FakeRoot(tmp_path / "root")


@pytest.fixture
def found(tmp_path: Path) -> Path:
    path = tmp_path / "found.json"
    path.write_bytes(msgspec.json.encode(few(4)))
    return path


def few(blocks: int) -> Comparison:
    """Two outcomes."""
    made = two_arms(blocks)
    return msgspec.structs.replace(made, outcomes=(made.outcomes[0], made.outcomes[-1]))


@pytest.mark.parametrize(
    "name, begin",
    [
        ("a.html", b"<!DOCTYPE html>"),
        ("a.md", b"# vm.watermark"),
        ("a.svg", b"<svg "),
        ("a.png", b"\x89PNG\r\n"),
        ("a.xml", b"<?xml "),
    ],
)
def test_every_kind_of_report(machine: FakeRoot, found: Path, tmp_path: Path, name: str, begin: bytes) -> None:
    ran = machine.run("report", str(found), "-o", str(tmp_path / name))
    assert (ran.status, ran.out) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(begin)
    again = machine.run("report", str(found), "-o", str(tmp_path / name))
    assert again.status == 2
    assert "add --force to overwrite the file" in again.err


def test_one_chart_of_one_outcome(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.svg"
    chosen = ("--chart", "runs", "--outcome", "memory-pressure.energy")
    assert machine.run("report", str(found), "-o", str(output), *chosen).status == 0
    assert "memory-pressure.energy" in output.read_text()
    alone = tmp_path / "alone.svg"
    assert machine.run("report", str(found), "-o", str(alone), "--outcome", "memory-pressure.energy").status == 0
    assert alone.read_bytes() == output.read_bytes()
    bad = machine.run("report", str(found), "-o", str(tmp_path / "b.svg"), "--chart", "run")
    assert (bad.status, bad.err) == (2, "ktrial: unknown chart: 'run'\n  next: did you mean runs?\n")
    bad = machine.run("report", str(found), "-o", str(tmp_path / "b.svg"), "--outcome", "nothing.at-all")
    assert bad.status == 2
    assert "memory-pressure.latency.p50" in bad.err


def test_a_summary_of_a_step_may_be_called_anything(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    output = tmp_path / "step"
    assert machine.run("report", str(found), "-o", str(output), "--summary").status == 0
    assert output.read_text().startswith("### vm.watermark")


@pytest.mark.parametrize(
    "data, told",
    [
        (b"", "not a ktrial.comparison/1 document"),
        (b"[]", "expected `object`"),
        (b'{"schema":"ktrial.bench/1"}', "$.schema"),
        (b"\xff\xfe", "not a ktrial.comparison/1 document"),
        (b'{"schema":"ktrial.comparison/1","title":"x"}', "missing required field `answer`"),
        (b"[" * 100_000, "not a ktrial.comparison/1 document"),
    ],
)
def test_what_is_no_comparison_is_refused(machine: FakeRoot, tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    for verb, output in (("report", "a.html"), ("publish", "folder")):
        ran = machine.run(verb, str(path), "-o", str(tmp_path / output))
        assert ran.status == 2
        assert told in ran.err
        assert "next: write a comparison with `ktrial compare A B -o FILE`" in ran.err
        assert not (tmp_path / output).exists()


def test_what_cannot_be_shown_is_refused(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    made = two_arms(4)
    first = made.outcomes[0]
    empty = msgspec.structs.replace(first.arms[0], points=())
    broken = msgspec.structs.replace(made, outcomes=(msgspec.structs.replace(first, arms=(empty,)),))
    found.write_bytes(msgspec.json.encode(broken))
    ran = machine.run("report", str(found), "-o", str(tmp_path / "a.html"))
    assert ran.status == 2
    assert "memory-pressure.latency.p50 has no measurement in arm 'stock'" in ran.err


def test_a_comparison_without_outcomes_has_no_chart(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    found.write_bytes(msgspec.json.encode(msgspec.structs.replace(few(2), outcomes=())))
    ran = machine.run("report", str(found), "-o", str(tmp_path / "a.svg"))
    assert (ran.status, "cannot draw a chart" in ran.err, ".html or .md" in ran.err) == (2, True, True), ran.err


@pytest.mark.parametrize("name", ["a.pdf", "a", "folder/a.html"])
def test_where_nothing_can_be_written(machine: FakeRoot, found: Path, tmp_path: Path, name: str) -> None:
    ran = machine.run("report", str(found), "-o", str(tmp_path / name))
    assert ran.status == 2
    assert "next: " in ran.err


def test_publishing_again_leaves_what_others_wrote(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    assert machine.run("publish", str(found), "-o", str(folder)).status == 0
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert (folder / "reproduce.sh").stat().st_mode & 0o111
    (folder / "own.txt").write_text("mine")
    refused = machine.run("publish", str(found), "-o", str(folder))
    assert refused.status == 2
    assert "not an empty folder" in refused.err
    assert "or add --force" in refused.err
    file = machine.run("publish", str(found), "-o", str(folder / "own.txt"), "--force")
    assert (file.status, "next: name a folder\n" in file.err) == (2, True), file.err
    runs = sorted((folder / "runs").iterdir())
    runs[0].write_text("changed")
    smaller = msgspec.structs.replace(few(2), exclusions=(), without=None)
    found.write_bytes(msgspec.json.encode(smaller))
    assert machine.run("publish", str(found), "-o", str(folder), "--force").status == 0
    after = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert Path("own.txt") in after
    assert Path("exclusions.json") in before
    assert Path("exclusions.json") not in after
    assert len(list((folder / "runs").iterdir())) in {4, 5}


def test_a_listing_cannot_point_elsewhere(machine: FakeRoot, found: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "SHA256SUMS").write_text(f"{digest}  ../victim\n{digest}  {victim}\n{digest}  runs/../../victim\n")
    assert machine.run("publish", str(found), "-o", str(folder), "--force").status == 0
    assert victim.exists()


def test_other_verbs_load_nothing_of_this() -> None:
    code = (
        "import sys, io; from ktrial.cli.main import main;"
        "main(['report', '--help'], io.StringIO(), sys.stderr);"
        "print(*sorted(set(sys.modules) & {'altair', 'vl_convert', 'numpy', 'scipy', 'msgspec'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert ran.stdout.split() == []


def test_a_trial_of_the_store_is_named_as_it_is(machine: FakeRoot, tmp_path: Path) -> None:
    file = str(tmp_path / "r.db")
    store = Store(Database.open(file))
    trial = messaging_trial(store).trial
    store.close()
    page = tmp_path / "trial.html"
    ran = machine.run("--store", file, "report", trial, "-o", str(page))
    assert ran.status == 0, ran.err
    assert "Course of the trial" in page.read_text(encoding="utf-8")
    unknown = machine.run("--store", file, "report", "nothing", "-o", str(tmp_path / "n.html"))
    assert (unknown.status, "unknown trial: 'nothing'" in unknown.err) == (2, True), unknown.err
