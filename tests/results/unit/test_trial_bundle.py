# SPDX-License-Identifier: Apache-2.0
"""Trials in bundles and published folders: they come out again elsewhere, and whatever is changed in one is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.judge.model.log import Protocol
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.record import ArmSettings, protocol_sha256
from tests.support.told_trials import messaging_trial
from tests.support.tree import FakeRoot

TRIAL = "messages-abcdef"
SESSION = "20261122T030000-messages-abcdef"
FOLDER = f"data/trials/{TRIAL}"


def fill(**more: Any) -> None:
    """A store with one trial."""
    store = Store(Database.open("a.db"))
    messaging_trial(store, **more)
    store.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return FakeRoot(tmp_path / "root")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial, published with its data."""
    place = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        patch.chdir(place)
        fill()
        ran = FakeRoot(place / "root").run("--store", "a.db", "publish", TRIAL, "--data", "-o", "out")
        assert ran.status == 0, ran.err
    return place


@pytest.fixture
def folder(once: Path, machine: FakeRoot) -> Path:
    """The published folder; nothing else is needed to check it."""
    shutil.copytree(once, ".", dirs_exist_ok=True, ignore=shutil.ignore_patterns("root"))
    return Path("out")


def check(machine: FakeRoot, path: Path | str) -> tuple[int, list[dict[str, str]]]:
    """Exit status and differences, from a store that is empty."""
    ran = machine.run("--store", "empty.db", "recheck", str(path), "--json")
    return ran.status, json.loads(ran.out)["differences"] if ran.out else [{"error": ran.err}]


def put_right(folder: Path) -> None:
    """All digests of files, as a forger would write them."""
    manifest = json.loads((folder / "data/manifest.json").read_text())
    for name in list(manifest["members"]):
        data = (folder / "data" / name).read_bytes()
        manifest["members"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    (folder / "data/manifest.json").write_text(json.dumps(manifest))
    names = [line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums))


def change_log(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """The events of the log, changed."""
    path = folder / FOLDER / "log.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    change(events)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def change_document(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def change_records(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / f"data/sessions/{SESSION}/runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


def test_a_published_trial_comes_out_again(machine: FakeRoot, folder: Path) -> None:
    assert check(machine, folder) == (0, [])
    said = machine.run("recheck", "out").out
    assert "redrew 7 orders from the seed, recomputed the verdicts of 7 looks" in " ".join(said.split())
    assert said.endswith("all equal\n")
    assert '\nname = "messages"\nsuite = "perf-messaging"\n' in (folder / "trial.toml").read_text()
    assert (folder / FOLDER / "noise.json").is_file()
    assert "course.svg" in {path.name for path in (folder / "charts").iterdir()}
    script = (folder / "reproduce.sh").read_text()
    assert "\nktrial recheck .\n" in script
    assert "# ktrial trial run trial.toml" in script


def lean(value: Any) -> Any:
    """As docs/formats.md has it."""
    if isinstance(value, dict):
        kept = {name: lean(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in (None, {}, [])}
    return [lean(one) for one in value] if isinstance(value, list) else value


def test_anybody_can_compute_the_hash_of_a_protocol(folder: Path) -> None:
    kept = json.loads((folder / FOLDER / "trial.json").read_text())
    protocol = json.loads((folder / FOLDER / "log.jsonl").read_text().splitlines()[0])
    whole = [lean(kept["file"]), lean(protocol), lean(kept["arms"])]
    canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == kept["protocol_sha256"]


def test_publishing_again_gives_the_same_bytes(machine: FakeRoot, folder: Path) -> None:
    assert machine.run("--store", "a.db", "publish", TRIAL, "--data", "-o", "again").status == 0
    assert (folder / "SHA256SUMS").read_bytes() == Path("again/SHA256SUMS").read_bytes()


def a_swap(events: list[dict[str, Any]]) -> None:
    drawn = of_kind(events, "block")[2]
    drawn["order"] = drawn["order"][::-1]


def another_verdict(events: list[dict[str, Any]]) -> None:
    of_kind(events, "look")[-1]["verdicts"] = {"case:control": "worse"}


def another_value(events: list[dict[str, Any]]) -> None:
    of_kind(events, "run")[5]["measurements"]["perf-messaging.time"] *= 0.5


def a_run_less(events: list[dict[str, Any]]) -> None:
    """A whole block, its runs and what was said after it."""
    events[:] = [one for one in events if one.get("block") != 4 and not (one["event"] == "look" and one["blocks"] == 4)]


def the_last_block_less(events: list[dict[str, Any]]) -> None:
    """As if it had ended at a better moment."""
    events[:] = [one for one in events if one.get("block") != 7 and not (one["event"] == "look" and one["blocks"] == 7)]


def another_margin(events: list[dict[str, Any]]) -> None:
    events[0]["outcomes"]["perf-messaging.time"]["margin"] = 0.5


def another_seed(events: list[dict[str, Any]]) -> None:
    events[0]["seed"] = 1234


def other_noise(events: list[dict[str, Any]]) -> None:
    events[0]["profile"]["perf-messaging.time"][0] = 0.5


def a_failure(events: list[dict[str, Any]]) -> None:
    of_kind(events, "run")[4] |= {"failure": "exit status 1", "measurements": {}}


@pytest.mark.parametrize(
    "change,kind,where,told",
    [
        (a_swap, "trial", "an order", "block 3 ran "),
        (another_verdict, "trial", "a verdict", "case:control worse; the runs before it give"),
        (another_value, "trial", "run 6", "the log has perf-messaging.time = "),
        (a_run_less, "trial", "run 8", "the log omits"),
        (another_margin, "protocol", "its protocol", "the protocol was changed"),
        (the_last_block_less, "trial", "run 14", "the log omits"),
        (another_seed, "trial", "an order", "seed 1234 gives"),
        (other_noise, "protocol", "its noise profile", "have different A/A differences for"),
        (a_failure, "trial", "run 5", "the record says: the run is good"),
    ],
)
def test_a_changed_log_is_named(
    machine: FakeRoot, folder: Path, change: Callable[[list[dict[str, Any]]], None], kind: str, where: str, told: str
) -> None:
    change_log(folder, change)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any(one["kind"] == kind and where in one["where"] and told in one["told"] for one in found), found
    assert all(TRIAL in one["where"] for one in found if one["kind"] in ("trial", "protocol"))


@pytest.mark.parametrize("changes", [{"exit": {"interrupted": True}}, {"void": ["it slept"]}])
def test_a_log_may_leave_out_runs_that_do_not_count(machine: FakeRoot, folder: Path, changes: dict[str, Any]) -> None:
    """Both runs of block 4, of which the log says nothing: one is good, and one was interrupted or is void."""
    change_log(folder, a_run_less)
    change_records(folder, lambda line: line["document"].update(changes) if line["number"] == 8 else None)
    put_right(folder)
    _, found = check(machine, folder)
    left_out = [one["where"] for one in found if "the log omits" in one["told"]]
    assert left_out == [f"trial {TRIAL}, run 9"]


def test_a_changed_arm_is_named_even_with_a_new_hash(machine: FakeRoot, folder: Path) -> None:
    """The hash of a forged protocol can be computed; the runs still bear the old one."""
    path = folder / FOLDER / "trial.json"
    change_document(path, lambda one: one["arms"]["case"]["environment"].update(TOOL="other"))
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any(one["kind"] == "protocol" and "the protocol was changed" in one["told"] for one in found)
    document = json.loads(path.read_text())
    protocol = msgspec.json.decode((folder / FOLDER / "log.jsonl").read_text().splitlines()[0], type=Protocol)
    file = msgspec.convert(document["file"], TrialFile)
    arms = msgspec.convert(document["arms"], dict[str, ArmSettings])
    change_document(path, lambda one: one.update(protocol_sha256=protocol_sha256(file, protocol, arms)))
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any("run 1" in one["where"] and "made for another protocol" in one["told"] for one in found), found


def test_changed_raw_output_is_named(machine: FakeRoot, folder: Path) -> None:
    """The record and its digest are put right too: what is printed in it gives another number than is kept."""
    lines = (folder / f"data/sessions/{SESSION}/runs.jsonl").read_text().splitlines()
    digest = json.loads(lines[4])["raw"]["stdout"]
    old = folder / "data/raw" / digest
    data = old.read_bytes().replace(b"Total time: 0.", b"Total time: 1.")
    new = hashlib.sha256(data).hexdigest()
    old.with_name(new).write_bytes(data)
    path = folder / f"data/sessions/{SESSION}/runs.jsonl"
    path.write_text(path.read_text().replace(digest, new))
    manifest = folder / "data/manifest.json"
    manifest.write_text(manifest.read_text().replace(digest, new))
    old.unlink()
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(f"data/raw/{digest}", f"data/raw/{new}"))
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any(one["kind"] == "measurement" and f"{SESSION}/5" in one["where"] for one in found), found


def test_a_changed_record_is_named_twice(machine: FakeRoot, folder: Path) -> None:
    """By its raw output, and by the log."""

    def change(line: dict[str, Any]) -> None:
        if line["number"] == 6:
            line["document"]["measurements"][0]["value"] *= 2

    change_records(folder, change)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert {"measurement", "trial"} <= {one["kind"] for one in found}


def test_a_record_that_is_none_is_named(machine: FakeRoot, folder: Path) -> None:
    def change(line: dict[str, Any]) -> None:
        if line["number"] == 6:
            line["document"]["position"] = "first"

    change_records(folder, change)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any("run 6" in one["told"] and "invalid run record" in one["told"] for one in found), found


def test_a_trial_under_the_name_of_another_is_named(machine: FakeRoot, folder: Path) -> None:
    change_document(folder / FOLDER / "trial.json", lambda stored: stored.update(trial="another"))
    put_right(folder)
    status, found = check(machine, folder)
    assert (status, [one["where"] for one in found if one["kind"] == "trial"]) == (1, [f"trial {TRIAL}"])


def test_a_changed_report_is_named(machine: FakeRoot, folder: Path) -> None:
    change_document(
        folder / "comparison.json", lambda one: one["outcomes"][0]["contrasts"][0].update(verdict="equivalent")
    )
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any(
        one["kind"] == "comparison" and 'stored "equivalent", recomputed "better"' in one["told"] for one in found
    )


def test_a_damaged_file_of_a_trial_is_named(machine: FakeRoot, folder: Path) -> None:
    path = folder / FOLDER / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"seed":7', b'"seed":9'))
    status, found = check(machine, folder)
    assert status == 1
    assert any(one["kind"] == "hash" and one["where"] == f"trial {TRIAL}, its log" for one in found), found


@pytest.mark.parametrize("text", ["", "{}\n", '{"event":"protocol"}\n', "nonsense\n", "\x00\n"])
def test_a_log_that_is_none_is_named(machine: FakeRoot, folder: Path, text: str) -> None:
    (folder / FOLDER / "log.jsonl").write_text(text)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert any(one["where"] == f"trial {TRIAL}" and "cannot read the trial" in one["told"] for one in found), found


def test_a_bundle_goes_into_another_store_and_holds_there(machine: FakeRoot, folder: Path) -> None:
    assert machine.run("--store", "a.db", "bundle", "a.tar.zst", TRIAL).status == 0
    assert check(machine, "a.tar.zst") == (0, [])
    ran = machine.run("--store", "b.db", "import", "a.tar.zst")
    assert f"imported 1 session, with {TRIAL}" in ran.err
    assert "imported 0 sessions; 1 already in the store" in machine.run("--store", "b.db", "import", "a.tar.zst").err
    listed = json.loads(machine.run("--store", "b.db", "trial", "list", "--json").out)["trials"]
    assert [(one["trial"], one["verdicts"]) for one in listed] == [(TRIAL, {"case": "better"})]
    ran = machine.run("--store", "b.db", "trial", "recheck")
    assert (ran.status, "is consistent" in ran.err) == (0, True)
    assert machine.run("--store", "b.db", "trial", "report").status == 0
    assert Path(f"{TRIAL}.html").read_text().startswith("<!DOCTYPE html>")


def test_names_are_replaced_and_it_still_holds(machine: FakeRoot) -> None:
    fill(command="/home/somebody/perf")
    ran = machine.run("--store", "a.db", "publish", TRIAL, "--data", "-o", "out")
    assert ran.status == 0, ran.err
    assert b"somebody" not in b"".join(path.read_bytes() for path in Path("out").rglob("*") if path.is_file())
    assert check(machine, "out") == (0, [])
    assert machine.run("--store", "a.db", "bundle", "a.tar.zst").status == 0
    assert "1 already in the store" in machine.run("--store", "a.db", "import", "a.tar.zst").err
    assert machine.run("--store", "a.db", "bundle", "whole.tar.zst", "--keep-identity").status == 0
    assert "1 already in the store" in machine.run("--store", "a.db", "import", "whole.tar.zst").err


def test_another_trial_of_the_same_name_is_refused(machine: FakeRoot, folder: Path) -> None:
    machine.run("--store", "a.db", "bundle", "a.tar.zst")
    Path("a.db").unlink()
    fill(ended=False)
    ran = machine.run("--store", "a.db", "import", "a.tar.zst")
    assert ran.status != 0
    assert f"trial {TRIAL} is already in the store with other content" in ran.err


def test_the_comparison_of_a_trial_is_reported_and_packed(machine: FakeRoot, folder: Path) -> None:
    Path("found.json").write_text(machine.run("--store", "a.db", "trial", "show", "--json").out)
    for name in ("found.html", "found.xml", "found.svg"):
        assert machine.run("report", "found.json", "-o", name).status == 0
    assert machine.run("report", "found.json", "-o", "course.svg", "--chart", "course").status == 0
    assert machine.run("report", "found.json", "-o", "summary.md", "--summary").status == 0
    assert "| time | primary | case | ▲ better |" in Path("summary.md").read_text()
    assert machine.run("--store", "a.db", "bundle", "found.tar.zst", "--comparison", "found.json").status == 0
    assert check(machine, "found.tar.zst") == (0, [])
    change_document(Path("found.json"), lambda one: one["outcomes"][0]["contrasts"][0].update(verdict="worse"))
    ran = machine.run("--store", "a.db", "publish", "found.json", "--data", "-o", "other")
    assert "the comparison no longer matches trial" in ran.err


def test_a_trial_that_is_not_there_is_not_published(machine: FakeRoot, folder: Path) -> None:
    ran = machine.run("--store", "a.db", "publish", "nosuch", "-o", "nowhere")
    assert "trial" in ran.err
    assert "nosuch" in ran.err
    assert not Path("nowhere").exists()
