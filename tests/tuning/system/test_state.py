# SPDX-License-Identifier: Apache-2.0
"""`ktrial state` through the real agent, on a folder that stands for a machine, and on this machine."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from ktrial.cli.main import main
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from ktrial.tuning.state.state import parse_state
from tests.support.stores import a_session
from tests.support.tree import FakeRoot

SWAPPINESS = "/proc/sys/vm/swappiness"


def test_a_change_is_named_and_undeclared_until_somebody_declares_it(root: FakeRoot) -> None:
    assert root.run("state", "save", "before").status == 0
    root.write(SWAPPINESS, "10\n")
    plain = root.run("state", "diff", "before", "now")
    assert plain.status == 0
    assert "1 undeclared difference" in plain.out
    assert "vm.swappiness" in plain.out
    assert root.run("state", "diff", "before", "now", "--fail-on", "undeclared").status == 3
    for option in (["--declared", "vm.swappiness"], ["--plan", "vm.swappiness=10"], ["--declared", SWAPPINESS]):
        ran = root.run("state", "diff", "before", "now", "--json", "--fail-on", "undeclared", *option)
        assert ran.status == 0, option
        (one,) = ran.json["declared"]
        assert (one["name"], one["path"], one["before"], one["after"]) == ("vm.swappiness", SWAPPINESS, "60", "10")


def test_a_saved_state_is_replaced_only_when_told(root: FakeRoot, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for place in (["before"], ["-o", str(file)]):
        assert root.run("state", "save", *place).status == 0
        root.write(SWAPPINESS, "10\n")
        again = root.run("state", "save", *place)
        assert (again.status, "exists" in again.err) == (2, True)
        side = str(file) if len(place) > 1 else "before"
        assert root.run("state", "diff", side, "now", "--fail-on", "undeclared").status == 3
        assert root.run("state", "save", "--force", *place).status == 0
        assert root.run("state", "diff", side, "now", "--fail-on", "undeclared").status == 0
        root.write(SWAPPINESS, "60\n")


def test_secrets_are_left_out_by_name(root: FakeRoot) -> None:
    key = "/proc/sys/net/ipv4/tcp_fastopen_key"
    root.write(key, "01234567-01234567-01234567-01234567\n")
    root.run("state", "save", "a")
    state = root.run("state", "show", "a", "--json")
    assert "01234567" not in state.out
    assert {path for path, why in state.json["left_out"].items() if why == "a secret"} == {
        key,
        "/proc/sys/net/ipv6/conf/*/stable_secret",
    }


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_device_is_never_replaced(root: FakeRoot, tmp_path: Path, force: list[str]) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    ran = root.run("state", "save", "-o", str(place), *force)
    assert (ran.status, "got a device, pipe or socket" in ran.err) == (2, True)
    assert place.is_fifo()


def test_a_transaction_declares_what_it_changed(root: FakeRoot) -> None:
    root.run("state", "save", "before")
    assert root.run("apply", "-y", "vm.swappiness=10").status == 0
    root.write("/proc/sys/vm/page-cluster", "0\n")
    found = root.run("state", "diff", "before", "now", "--json").json
    assert [(one["name"], one["declared"]) for one in found["declared"]] == [("vm.swappiness", "transaction 1")]
    assert [one["name"] for one in found["undeclared"]] == ["vm.page-cluster"]
    assert root.run("revert", "--all").status == 0
    root.write("/proc/sys/vm/page-cluster", "3\n")
    assert root.run("state", "diff", "before", "now", "--fail-on", "undeclared").status == 0


def test_states_of_a_session_in_the_store(root: FakeRoot, tmp_path: Path) -> None:
    root.run("state", "save", "-o", str(tmp_path / "a.json"))
    root.write(SWAPPINESS, "10\n")
    root.run("state", "save", "-o", str(tmp_path / "b.json"))
    url = str(tmp_path / "results.db")
    store = Store(Database.open(url))
    store.begin(a_session("s1"))
    for place in ("a", "b"):
        store.keep_state("s1", place, (tmp_path / f"{place}.json").read_bytes())
    store.close()
    ran = root.run("--store", url, "state", "diff", "s1:a", "s1:b", "--json")
    assert [one["name"] for one in ran.json["undeclared"]] == ["vm.swappiness"]
    several = root.run("--store", url, "state", "show", "s1")
    assert several.status == 2
    assert "has 2 different states" in several.err
    assert "a, b" in several.err
    assert "unknown state of session s1: 'c'" in root.run("--store", url, "state", "show", "s1:c").err


def test_labels_stand_for_the_newest_state_under_them(root: FakeRoot, tmp_path: Path) -> None:
    url = str(tmp_path / "results.db")
    store = Store(Database.open(url))
    kept = [
        ("old", "stock", 1, {"end": "60"}),
        ("new", "stock", 2, {"begin": "50", "begin-7": "51", "begin-12": "52"}),
        ("bare", "stock", 3, {}),
        ("t", "tuned", 4, {"begin": "10", "end": "11"}),
    ]
    for name, label, started, places in kept:
        store.begin(a_session(name, label=label, started_unix_ms=started))
        for place, swappiness in places.items():
            root.write(SWAPPINESS, f"{swappiness}\n")
            root.run("state", "save", "-o", str(tmp_path / f"{name}-{place}"))
            store.keep_state(name, place, (tmp_path / f"{name}-{place}").read_bytes())
    store.close()
    ran = root.run("--store", url, "state", "diff", "stock", "tuned", "--json")
    (one,) = ran.json["undeclared"]
    assert (one["before"], one["after"]) == ("52", "11")
    assert ran.json["notes"][-2:] == ["stock: session new, begin-12.", "tuned: session t, end."]
    placed = root.run("--store", url, "state", "diff", "old", "tuned:begin", "--json").json["undeclared"]
    assert (placed[0]["before"], placed[0]["after"]) == ("60", "10")
    assert "did you mean tuned?" in root.run("--store", url, "state", "show", "tunde").err
    assert "unknown state of session new: 'end'" in root.run("--store", url, "state", "show", "stock:end").err


def test_a_label_without_any_state_is_said(root: FakeRoot, tmp_path: Path) -> None:
    url = str(tmp_path / "results.db")
    store = Store(Database.open(url))
    store.begin(a_session("brought", label="stock", origin="import:csv"))
    store.close()
    ran = root.run("--store", url, "state", "show", "stock")
    assert (ran.status, "session brought has no state" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "argv, said",
    [
        (["show", "nothing"], "unknown state: 'nothing'"),
        (["show", "./nothing.json"], "no such file"),
        (["save"], "expected either NAME or -o FILE"),
        (["save", "x", "-o", "y"], "expected either NAME or -o FILE"),
        (["save", "../x"], "invalid name"),
        (["save", "now"], "invalid name"),
        (["diff", "now", "now", "--declared", "vm.swapiness"], "did you mean vm.swappiness?"),
    ],
)
def test_what_cannot_be_done_is_said(root: FakeRoot, argv: list[str], said: str) -> None:
    ran = root.run("state", *argv)
    assert ran.status == 2
    assert said in ran.err
    assert ran.out == ""


def test_a_file_of_something_else_is_refused(root: FakeRoot, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"schema": "ktrial.run/1"}')
    assert "not a saved state" in root.run("state", "show", str(file)).err
    with file.open("wb") as sparse:
        sparse.truncate(2 << 30)
    assert "larger than 64 MiB" in root.run("state", "show", str(file)).err


def test_this_machine_in_less_than_a_second_of_cpu_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        before = os.times()
        assert main(["state", "save", "-o", str(place)], io.StringIO(), io.StringIO()) == 0
        # Of this process and the agent: other tests that run do not count.
        assert sum(os.times()[:4]) - sum(before[:4]) < 1.0
    state = parse_state(places[0].read_bytes(), "a")
    assert state.files["/proc/sys/vm/swappiness"].text is not None
    assert len(state.files) > 500
    assert "vm.swappiness" in state.knobs
    assert "/proc/sys/fs/file-nr" in state.left_out
    assert "/proc/sys/fs/file-nr" not in state.files
    assert any(name.startswith("kernel.") for name in state.facts)
