# SPDX-License-Identifier: Apache-2.0
"""`ktrial recheck` convicts: one thing changed in a bundle or a published folder, digests put right: it is named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.cli.app import App
from ktrial.evidence.file import BundleFolder
from ktrial.judge.model.query import AskedComparison
from ktrial.kit.scrub import Identity
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_record, a_session
from tests.support.tree import FakeRoot

TIMES = {"stock": (0.211, 0.215, 0.209, 0.213, 0.212, 0.214), "tuned": (0.173, 0.171, 0.176, 0.172, 0.174, 0.175)}
HYPERFINE = """{"results": [{"command": "make", "mean": 2, "stddev": 0.1, "median": 2, "user": 1, "system": 1,
"min": 1.9, "max": 2.1, "times": [%s], "exit_codes": [0, 0, 0, 0, 0]}]}"""


def messaging(seconds: float) -> bytes:
    """As perf bench prints it."""
    return (
        b"# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n"
        b"# 2 groups == 80 processes run\n\n     Total time: %.3f [sec]\n" % seconds
    )


def fill(store: Store) -> None:
    """Two labels with six runs each, hosts named in their output."""
    for place, (label, times) in enumerate(TIMES.items()):
        document = {"session": f"s-{label}", "seed": 7}
        store.begin(a_session(f"s-{label}", label=label, document=document, started_unix_ms=1_700_000_000_000 + place))
        for number, value in enumerate(times, 1):
            measured = {
                "outcome": "time",
                "value": value,
                "unit": "s",
                "direction": "lower",
                "original": f"{value:.3f} s",
            }
            record = a_record(
                number,
                "perf-messaging",
                session=f"s-{label}",
                parameters={"groups": 2, "loops": 200},
                details={"tasks": 80},
                measurements=[measured | {"original": f"{value:.3f} s"}],
                started_monotonic_ns=1_000_000_000 * (10 * number + place),
            )
            store.save(record, {"stdout": messaging(value), "stderr": b"USER=somebody\n"})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return FakeRoot(tmp_path / "root")


def made(machine: FakeRoot, *words: str) -> Path:
    """What `ktrial compare --json` finds."""
    ran = machine.run("--store", "a.db", "compare", *words, "--json")
    assert ran.status == 0, ran.err
    Path("found.json").write_text(ran.out)
    return Path("found.json")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, a comparison of its labels, and that published with its data."""
    place = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        patch.chdir(place)
        machine = FakeRoot(place / "root")
        store = Store(Database.open("a.db"))
        fill(store)
        store.close()
        found = made(machine, "stock", "tuned", "--margin", "1%", "--primary", "time")
        ran = machine.run("--store", "a.db", "publish", str(found), "--data", "-o", "out")
        assert ran.status == 0, ran.err
        assert "replaced: user (2);" in ran.err, "the same output is replaced once in each session"
    return place


@pytest.fixture
def folder(once: Path, machine: FakeRoot) -> Path:
    """The published folder; nothing else is needed to check it."""
    shutil.copytree(once, ".", dirs_exist_ok=True, ignore=shutil.ignore_patterns("root"))
    return Path("out")


def check(machine: FakeRoot, path: Path) -> tuple[int, list[dict[str, str]]]:
    """Exit status and differences, from a store that is empty."""
    ran = machine.run("--store", "empty.db", "recheck", str(path), "--json")
    return ran.status, json.loads(ran.out)["differences"] if ran.out else [{"error": ran.err}]


def put_right(folder: Path) -> None:
    """All digests, as a forger would write them."""
    manifest = json.loads((folder / "data/manifest.json").read_text())
    for name in list(manifest["members"]):
        data = (folder / "data" / name).read_bytes()
        manifest["members"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    (folder / "data/manifest.json").write_text(json.dumps(manifest))
    names = [line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums))


def comparison_with(folder: Path, change: Callable[[Any], None]) -> None:
    """The published comparison, changed."""
    document = json.loads((folder / "comparison.json").read_text())
    change(document)
    (folder / "comparison.json").write_text(json.dumps(document))


def test_what_was_published_comes_out_again(machine: FakeRoot, folder: Path) -> None:
    assert check(machine, folder) == (0, [])
    text = machine.run("recheck", "out")
    assert text.status == 0
    assert "12, 12 re-read" in text.out
    assert text.out.endswith("all equal\n")
    assert b"somebody" not in b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_question_is_known_by_its_digest(folder: Path) -> None:
    document = json.loads((folder / "comparison.json").read_text())
    asked = msgspec.convert(document["asked"], AskedComparison)
    canonical = json.dumps(document["asked"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert asked.sha256 == hashlib.sha256(canonical.encode()).hexdigest() == document["asked_sha256"]
    assert document["asked_sha256"] in (folder / "README.md").read_text()


def raw_of(folder: Path, session: str, number: int) -> Path:
    """The file of a run's standard output."""
    lines = (folder / f"data/sessions/{session}/runs.jsonl").read_text().splitlines()
    return folder / "data/raw" / str(json.loads(lines[number - 1])["raw"]["stdout"])


def test_one_byte_of_raw_output_is_named(machine: FakeRoot, folder: Path) -> None:
    raw = raw_of(folder, "s-tuned", 2)
    raw.write_bytes(raw.read_bytes().replace(b"0.171", b"0.141"))
    status, found = check(machine, folder)
    assert status == 1
    assert "s-tuned/2, raw output stdout" in [one["where"] for one in found if one["kind"] == "hash"]
    assert [(one["where"], one["told"]) for one in found if one["kind"] == "measurement"] == [
        (
            "s-tuned/2, perf-messaging",
            "time: time 0.171 s (lower, from '0.171 s'), now time 0.141 s (lower, from '0.141 s')",
        )
    ]


def test_raw_output_under_a_digest_of_its_own_is_named(machine: FakeRoot, folder: Path) -> None:
    raw = raw_of(folder, "s-tuned", 2)
    data = raw.read_bytes().replace(b"0.171", b"0.141")
    digest = hashlib.sha256(data).hexdigest()
    raw.with_name(digest).write_bytes(data)
    raw.unlink()
    for name in ("data/sessions/s-tuned/runs.jsonl", "data/manifest.json", "SHA256SUMS"):
        (folder / name).write_text((folder / name).read_text().replace(raw.name, digest))
    put_right(folder)
    status, found = check(machine, folder)
    assert (status, [(one["kind"], one["where"]) for one in found]) == (
        1,
        [("measurement", "s-tuned/2, perf-messaging")],
    )


def test_a_measurement_is_named(machine: FakeRoot, folder: Path) -> None:
    runs = folder / "data/sessions/s-stock/runs.jsonl"
    runs.write_text(runs.read_text().replace('"value":0.209', '"value":0.219'))
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert [one["where"] for one in found if one["kind"] == "measurement"] == ["s-stock/3, perf-messaging"]
    point = "outcome perf-messaging.time, arm stock, run s-stock/3: value"
    assert {"kind": "comparison", "where": point, "told": "stored 0.209, recomputed 0.219"} in found


def test_a_raw_file_that_is_not_named_after_its_bytes_is_named(machine: FakeRoot, folder: Path) -> None:
    """Though manifest and list agree with it: runs know their output by its digest."""
    raw = raw_of(folder, "s-tuned", 2)
    raw.write_bytes(raw.read_bytes() + b"\n")
    put_right(folder)
    status, found = check(machine, folder)
    assert (status, [(one["kind"], one["where"]) for one in found]) == (1, [("hash", "s-tuned/2, raw output stdout")])


def without(folder: Path, session: str, number: int, outcome: str) -> None:
    """One measurement fewer in the record of a run."""
    path = folder / f"data/sessions/{session}/runs.jsonl"
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    measured = runs[number - 1]["document"]["measurements"]
    runs[number - 1]["document"]["measurements"] = [one for one in measured if one["outcome"] != outcome]
    assert len(runs[number - 1]["document"]["measurements"]) == len(measured) - 1
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    put_right(folder)


def test_a_measurement_that_was_left_out_is_named(machine: FakeRoot, folder: Path) -> None:
    without(folder, "s-stock", 3, "time")
    status, found = check(machine, folder)
    assert status == 1
    assert [(one["where"], one["told"]) for one in found if one["kind"] == "measurement"] == [
        ("s-stock/3, perf-messaging", "time: not measured, now time 0.209 s (lower, from '0.209 s')")
    ]


def _margin(document: Any) -> None:
    document["asked"]["margin"] = 0.02


def _verdict(document: Any) -> None:
    document["outcomes"][0]["contrasts"][0]["verdict"] = "equivalent"


def _interval(document: Any) -> None:
    document["outcomes"][0]["contrasts"][0]["effect"]["low"] += 1e-7


def _answer(document: Any) -> None:
    document["answer"] += "!"


def _dropped(document: Any) -> None:
    document["outcomes"][0]["arms"][1]["points"].pop(2)


CONTRAST = "outcome perf-messaging.time, arm tuned: "


@pytest.mark.parametrize(
    "change, kind, where, told",
    [
        (_margin, "question", "the question", "the question was changed"),
        (_margin, "comparison", "outcome perf-messaging.time: margin", "stored 0.01, recomputed 0.02"),
        (_verdict, "comparison", f"{CONTRAST}verdict", 'stored "equivalent"'),
        (_interval, "comparison", f"{CONTRAST}effect.low", "recomputed"),
        (_answer, "comparison", "answer", '!", recomputed '),
        (_dropped, "comparison", "outcome perf-messaging.time, arm tuned, run s-tuned/3: ", "stored nothing"),
    ],
)
def test_a_changed_comparison_is_named(
    machine: FakeRoot, folder: Path, change: Callable[[Any], None], kind: str, where: str, told: str
) -> None:
    comparison_with(folder, change)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    named = [one for one in found if (one["kind"], one["where"]) == (kind, where)]
    assert len(named) == 1, found
    assert told in named[0]["told"]


def _older(document: Any) -> None:
    """What an earlier version wrote, in other words."""
    document["writer"] = None
    document["answer"] = "tuned wins"
    document["outcomes"][0]["contrasts"][0]["why"] = "the interval is above zero"


def test_sentences_of_another_version_are_not_compared(machine: FakeRoot, folder: Path) -> None:
    comparison_with(folder, _older)
    (folder / "README.md").write_text("tuned wins\n")
    for run in (folder / "runs").iterdir():
        run.write_text(json.dumps({"measurements": json.loads(run.read_text())["measurements"]}))
    put_right(folder)
    ran = machine.run("recheck", "out", "--json")
    assert ran.status == 0, ran.out
    assert json.loads(ran.out)["notes"] == [
        "another version of ktrial wrote the comparison: its texts are not compared",
        "README.md, charts, trial.toml and reproduce.sh are not compared either",
    ]


@pytest.mark.parametrize("change", [_verdict, _interval, _dropped])
def test_numbers_and_verdicts_of_another_version_are_compared(
    machine: FakeRoot, folder: Path, change: Callable[[Any], None]
) -> None:
    comparison_with(folder, _older)
    comparison_with(folder, change)
    put_right(folder)
    status, found = check(machine, folder)
    assert status == 1
    assert [one["kind"] for one in found] == ["comparison"]


def test_files_of_runs_of_another_version_are_compared(machine: FakeRoot, folder: Path) -> None:
    comparison_with(folder, _older)
    run = folder / "runs/s-stock-3.json"
    run.write_text(run.read_text().replace("0.209", "0.219"))
    put_right(folder)
    assert [one["where"] for one in check(machine, folder)[1]] == ["runs/s-stock-3.json"]


def test_numbers_that_no_reader_could_tell_apart_are_equal(machine: FakeRoot, folder: Path) -> None:
    def nudge(document: Any) -> None:
        document["outcomes"][0]["arms"][0]["mean"] *= 1 + 1e-12

    comparison_with(folder, nudge)
    put_right(folder)
    assert check(machine, folder) == (0, [])


def test_a_report_that_says_something_else_is_named(machine: FakeRoot, folder: Path) -> None:
    readme = folder / "README.md"
    readme.write_text(readme.read_text().replace("better", "worse", 1))
    assert [one["where"] for one in check(machine, folder)[1]] == ["README.md"]
    put_right(folder)
    status, found = check(machine, folder)
    assert (status, found) == (
        1,
        [{"kind": "file", "where": "README.md", "told": "does not follow from the data"}],
    )


def test_a_record_that_cannot_be_followed_is_no_excuse(machine: FakeRoot, folder: Path) -> None:
    runs = folder / "data/sessions/s-stock/runs.jsonl"
    runs.write_text(runs.read_text().replace('"resources"', '"recources"', 1))
    put_right(folder)
    status, found = check(machine, folder)
    assert (status, found[0]["where"]) == (1, "s-stock/1, perf-messaging")


def test_a_bundle_holds_the_same(machine: FakeRoot, folder: Path, tmp_path: Path) -> None:
    ran = machine.run("--store", "a.db", "bundle", "--comparison", "found.json", "b.tar.zst")
    assert ran.status == 0, ran.err
    assert check(machine, Path("b.tar.zst")) == (0, [])
    bundles = BundleFolder(tmp_path / "bundles")
    packed = bundles.open(tmp_path / "b.tar.zst").comparison()
    bundles.close()
    assert packed is not None
    assert json.loads(packed) == json.loads((folder / "comparison.json").read_text())
    assert machine.run("--store", "other.db", "import", "b.tar.zst").status == 0
    data = Path("b.tar.zst").read_bytes()
    Path("b.tar.zst").write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])
    assert machine.run("recheck", "b.tar.zst").status == 2


def test_machines_together_come_out_again_under_other_names(machine: FakeRoot) -> None:
    table = (Path(__file__).parents[3] / "examples/results/machines.csv").read_text()
    Path("m.csv").write_text(table.replace("machine,", "hostname,").replace("\ndesk,", "\ndesk-of-jane,"))
    columns = ("--by", "kernel", "--block", "round", "--value", "latency_us", "--direction", "lower")
    found = made(machine, "m.csv", *columns, "--pool", "--control", "stock")
    assert "desk-of-jane" in found.read_text()
    assert machine.run("bundle", "--comparison", str(found), "b.tar.zst").status == 0
    assert check(machine, Path("b.tar.zst")) == (0, [])
    assert f"runs        {table.count(chr(10)) - 1}, " in machine.run("recheck", "b.tar.zst").out
    (contrast,) = json.loads(found.read_text())["outcomes"][0]["contrasts"]
    assert [one["machine"] for one in contrast["pooled"]["machines"]][1:] == ["laptop", "server", "board"]
    assert json.loads(found.read_text())["asked"]["pool"] is True


def test_without_a_comparison_raw_output_is_read(machine: FakeRoot, folder: Path) -> None:
    assert machine.run("--store", "a.db", "bundle", "b.tar.zst").status == 0
    ran = machine.run("recheck", "b.tar.zst")
    assert (ran.status, "the bundle contains no comparison" in ran.out) == (0, True)


def hyperfine(name: str, *times: float) -> None:
    Path(name).write_text(HYPERFINE % ", ".join(map(str, times)))


def test_files_of_other_tools_are_checked_too(machine: FakeRoot) -> None:
    hyperfine("before.json", 2.0, 2.1, 1.9, 2.05, 1.95)
    hyperfine("after.json", 1.0, 1.1, 0.9, 1.05, 0.95)
    found = made(machine, "stock=before.json", "tuned=after.json", "--exclude", "after.json#2:a stray task")
    assert machine.run("bundle", "--comparison", str(found), "b.tar.zst").status == 0
    assert check(machine, Path("b.tar.zst")) == (0, [])
    assert "runs        9, 9 re-read\n" in machine.run("recheck", "b.tar.zst").out, "without the excluded run"
    hyperfine("after.json", 1.0, 1.1, 0.9, 1.05, 0.94)
    ran = machine.run("bundle", "--comparison", str(found), "c.tar.zst")
    assert (ran.status, "after.json has changed since it was compared" in ran.err) == (4, True)


def test_names_in_the_question_are_replaced_too(machine: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "scrubbing", staticmethod(lambda: (Identity(user=("melisande",)), b"salt")))
    hyperfine("before.json", 2.0, 2.1, 1.9, 2.05, 1.95)
    hyperfine("melisande.json", 1.0, 1.1, 0.9, 1.05, 0.95)
    found = made(machine, "stock=before.json", "t=melisande.json", "--exclude", "melisande.json#2:melisande looked")
    ran = machine.run("publish", str(found), "--data", "-o", "out")
    assert ran.status == 0, ran.err
    assert re.search(r"replaced: user \([1-9]", ran.err), ran.err
    assert [path for path in Path("out").rglob("*") if path.is_file() and b"melisande" in path.read_bytes()] == []
    assert "looked" in Path("out/exclusions.json").read_text()
    assert check(machine, Path("out")) == (0, [])
    ran = machine.run("bundle", "--comparison", str(found), "--keep-identity", "b.tar.zst")
    assert ran.status == 0, ran.err
    assert check(machine, Path("b.tar.zst")) == (0, [])


@pytest.fixture
def imported(machine: FakeRoot) -> Path:
    """A comparison of runs that another tool made, published with its data."""
    for label, base in (("stock", 2.0), ("tuned", 1.0)):
        hyperfine(f"{label}.json", base, base + 0.1, base - 0.1, base + 0.05, base - 0.05)
        assert machine.run("--store", "a.db", "import", f"{label}.json", "--label", label).status == 0
    found = made(machine, "stock", "tuned")
    ran = machine.run("--store", "a.db", "publish", str(found), "--data", "-o", "out")
    assert ran.status == 0, ran.err
    assert check(machine, Path("out")) == (0, [])
    return Path("out")


def test_imported_runs_are_read_again_from_their_file(machine: FakeRoot, imported: Path) -> None:
    for runs in imported.glob("data/sessions/*/runs.jsonl"):
        runs.write_text(runs.read_text().replace('"value":1.05', '"value":1.06'))
    put_right(imported)
    status, named = check(machine, imported)
    told = [one["told"] for one in named if one["kind"] == "measurement"]
    assert (status, len(told)) == (1, 1)
    assert "1.06" in told[0]
    assert "1.05" in told[0]


def test_an_outcome_that_only_the_file_of_an_import_has_is_named(machine: FakeRoot, imported: Path) -> None:
    session = min(path.parent.name for path in imported.glob("data/sessions/*/runs.jsonl"))
    without(imported, session, 2, "time")
    status, found = check(machine, imported)
    (told,) = [one["told"] for one in found if one["kind"] == "measurement"]
    assert (status, told.partition(", the file has ")[0]) == (1, "time: stored nothing")


def test_what_an_import_tells_of_its_runs_is_checked_too(machine: FakeRoot, imported: Path) -> None:
    runs = min(imported.glob("data/sessions/*/runs.jsonl"))
    runs.write_text(runs.read_text().replace('"command":"make"', '"command":"made"', 1))
    put_right(imported)
    status, found = check(machine, imported)
    (told,) = [one["told"] for one in found if one["kind"] == "measurement"]
    assert (status, told.partition(":")[0]) == (1, "attributes")


def test_runs_of_sessions_and_of_files_are_counted_together(machine: FakeRoot) -> None:
    hyperfine("before.json", 2.0, 2.1, 1.9, 2.05, 1.95)
    hyperfine("after.json", 1.0, 1.1, 0.9, 1.05, 0.95)
    assert machine.run("--store", "a.db", "import", "before.json", "--label", "stock").status == 0
    found = made(machine, "stock", "tuned=after.json")
    ran = machine.run("--store", "a.db", "bundle", "--comparison", str(found), "b.tar.zst")
    assert ran.status == 0, ran.err
    assert json.loads(machine.run("recheck", "b.tar.zst", "--json").out)["runs"] == 10


def test_only_what_comes_out_is_packed(machine: FakeRoot, folder: Path) -> None:
    document = json.loads(Path("found.json").read_text())
    _interval(document)
    Path("found.json").write_text(json.dumps(document))
    ran = machine.run("--store", "a.db", "bundle", "--comparison", "found.json", "b.tar.zst")
    assert (ran.status, "recomputing the comparison from the bundle gives another result" in ran.err) == (4, True)
    assert not Path("b.tar.zst").exists()
    del document["asked"]
    Path("found.json").write_text(json.dumps(document))
    ran = machine.run("--store", "a.db", "bundle", "--comparison", "found.json", "b.tar.zst")
    assert (ran.status, "does not contain its question" in ran.err) == (2, True)


@pytest.mark.parametrize("seed", range(6))
def test_any_byte_is_noticed(machine: FakeRoot, folder: Path, seed: int) -> None:
    """Nothing that is in a folder can be changed without notice, whether or not anything can be read then."""
    chance = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    ran = machine.run("recheck", "out")
    assert ran.status in (1, 2), path
    assert path.name in ran.out + ran.err or path.parent.name in ran.out + ran.err


@pytest.mark.parametrize("linked", ["data", "data/raw", "data/sessions", "data/sessions/s-tuned", "comparison.json"])
def test_folders_that_are_links_are_not_followed(machine: FakeRoot, folder: Path, linked: str) -> None:
    place = folder / linked
    place.rename("elsewhere")
    place.symlink_to(Path("elsewhere").absolute())
    ran = machine.run("recheck", "out")
    assert (ran.status, "a symbolic link" in ran.err) == (2, True)


@pytest.mark.parametrize("linked", ["charts", "runs", "README.md"])
def test_nothing_is_read_outside_of_what_was_published(machine: FakeRoot, folder: Path, linked: str) -> None:
    place = folder / linked
    place.rename("elsewhere")
    place.symlink_to(Path("elsewhere").absolute())
    status, found = check(machine, folder)
    assert status == 1
    assert {one["where"].partition("/")[0] for one in found} == {linked}


def test_the_published_folder_itself_may_be_a_link(machine: FakeRoot, folder: Path) -> None:
    Path("link").symlink_to(folder)
    assert check(machine, Path("link")) == (0, [])


def test_what_never_ends_is_not_read(machine: FakeRoot, folder: Path) -> None:
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")
    assert [one["where"] for one in check(machine, folder)[1]] == ["README.md"]


def test_what_is_no_bundle_is_refused(machine: FakeRoot, folder: Path) -> None:
    raw = raw_of(folder, "s-tuned", 2)
    raw.unlink()
    ran = machine.run("recheck", "out")
    assert (ran.status, raw.name in ran.err) == (2, True)
    raw.symlink_to("/etc/passwd")
    ran = machine.run("recheck", "out")
    assert (ran.status, "a symbolic link" in ran.err) == (2, True)
    shutil.rmtree("out/data")
    ran = machine.run("recheck", "out")
    assert (ran.status, "--data" in ran.err) == (2, True)
    assert machine.run("recheck", "missing.tar.zst").status == 2
