# SPDX-License-Identifier: Apache-2.0
"""`ktrial history` on a store of sessions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_run, a_session
from tests.support.tree import FakeRoot

#: Medians of sessions in milliseconds: 10 to 10.3 on one kernel, 12 to 12.3 on the next.
LEVELS = (10.0, 10.2, 10.1, 10.3, 10.05, 12.0, 12.2, 12.1, 12.3, 12.05)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return FakeRoot(tmp_path / "root")


def fill(levels: tuple[float, ...] = LEVELS) -> None:
    """A session a day, written in another order than measured; three runs each, the median in the middle."""
    store = Store(Database.open("a.db"))
    for day, level in sorted(enumerate(levels), key=lambda item: -item[0] % 7):
        kernel = "6.17" if day < 5 else "6.18"
        name = f"s{day}"
        session = a_session(
            name,
            label="nightly",
            kernel_release=kernel,
            boot_id=f"boot-{day}",
            started_unix_ms=1_700_000_000_000 + day * 86_400_000,
        )
        runs = [a_run(number, level * part / 1000, session=name) for number, part in enumerate((0.9, 1.0, 1.5), 1)]
        store.save_all(session, [(run, {}) for run in (*runs, a_run(4, 99.0, session=name, warm_up=True))])
    store.begin(a_session("other", label="other", started_unix_ms=1))
    store.save(a_run(1, 5.0, session="other"), {})
    store.close()


def shown(machine: FakeRoot, *words: str) -> str:
    ran = machine.run("--store", "a.db", "history", *words)
    assert ran.status == 0, ran.err
    return ran.out


def test_a_new_kernel_and_what_it_cost(machine: FakeRoot) -> None:
    fill()
    found = json.loads(shown(machine, "wakeup.p99", "--label", "nightly", "--json"))
    assert [one["sessions"] for one in found["moments"]] == [[f"s{day}"] for day in range(10)]
    assert [one["median"] for one in found["moments"]] == pytest.approx([level / 1000 for level in LEVELS])
    assert {one["runs"] for one in found["moments"]} == {3}
    (change,) = found["changes"]
    assert (change["place"], change["name"], change["before"], change["after"]) == (6, "s5", 5, 5)
    ratios = sorted(math.log(b / a) for a in LEVELS[:5] for b in LEVELS[5:])
    assert change["effect"]["estimate"] == pytest.approx(-ratios[12]), "less is better, so it is below zero"
    # Of 5 and 5 values the table of Mann-Whitney has 2 as the largest U below 5 %: the third from each end.
    assert (change["effect"]["low"], change["effect"]["high"]) == pytest.approx((-ratios[-3], -ratios[2]))
    assert [(one["name"], one["before"], one["after"]) for one in change["differs"]] == [
        ("kernel", "6.17", "6.18"),
        ("boot", "boot-4", "boot-5"),
    ]


def test_as_text(machine: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fill()
    text = shown(machine, "p99", "--label", "nightly")
    assert max(map(len, text.splitlines())) <= 80
    marked = [line for line in text.splitlines() if "<- 1" in line]
    assert len(marked) == 1
    assert "6.18" in marked[0]
    assert "12.00" in marked[0]
    assert "worse: 20 % more time" in text, "12.1 of 10.1 ms is 1.198"
    assert "kernel 6.17 -> 6.18" in text


def test_as_a_picture(machine: FakeRoot) -> None:
    fill()
    shown(machine, "p99", "--label", "nightly", "-o", "a.svg")
    drawn = Path("a.svg").read_text()
    assert drawn.startswith("<svg ")
    assert ">+20 %<" in drawn
    again = machine.run("--store", "a.db", "history", "p99", "-o", "a.svg")
    assert (again.status, "--force" in again.err) == (2, True)
    assert machine.run("--store", "a.db", "history", "p99", "-o", "a.html").status == 2


def test_a_value_for_each_kernel(machine: FakeRoot) -> None:
    fill()
    found = json.loads(shown(machine, "p99", "--label", "nightly", "--by", "kernel", "--json"))
    assert [(one["name"], one["runs"]) for one in found["moments"]] == [("6.17", 15), ("6.18", 15)]
    assert [one["median"] for one in found["moments"]] == pytest.approx([0.0101, 0.0121])
    assert found["changes"] == []
    assert "2 moments are too few to find changes of level (minimum 10)" in found["notes"][0]
    assert "no change of level found" in shown(machine, "p99", "--label", "nightly", "--by", "kernel")


def test_without_a_label_all_sessions_count(machine: FakeRoot) -> None:
    fill()
    found = json.loads(shown(machine, "p99", "--json"))
    assert found["moments"][0]["sessions"] == ["other"]
    assert len(found["moments"]) == 11


@pytest.mark.parametrize(
    "words, told",
    [
        (("p98",), "unknown outcome: 'p98'"),
        (("p99", "--label", "nihgtly"), "did you mean nightly?"),
    ],
)
def test_names_that_are_not_there(machine: FakeRoot, words: tuple[str, ...], told: str) -> None:
    fill()
    ran = machine.run("--store", "a.db", "history", *words)
    assert (ran.status, told in ran.err) == (2, True), ran.err


def test_an_empty_store(machine: FakeRoot) -> None:
    ran = machine.run("--store", "a.db", "history", "p99")
    assert (ran.status, "no run has a measurement" in ran.err) == (2, True)


def test_values_of_zero_are_compared_by_difference(machine: FakeRoot) -> None:
    fill((0.0, 1.0, 0.5, 0.25, 0.75, 9.0, 9.5, 9.25, 9.75, 9.1))
    (change,) = json.loads(shown(machine, "p99", "--label", "nightly", "--json"))["changes"]
    assert change["effect"]["scale"] == "difference"
    assert "worse" in shown(machine, "p99", "--label", "nightly")


#: Each goes on from the one before it by 0.6 of its distance (an autoregression), in hundredths of a millisecond.
GOING_ON = (
    *(0, 0, 10, 14, 15, 25, 3, -4, -16, -11, 4, 2, 6, -15, -8),
    *(-14, 10, 15, 18, 10, 12, 14, 5, -2, -2, -7, -10, -9, -13, 0),
)


def test_sessions_that_go_on_from_each_other_are_a_doubt(machine: FakeRoot) -> None:
    fill(tuple(10 + one / 100 for one in GOING_ON))
    notes = json.loads(shown(machine, "p99", "--label", "nightly", "--json"))["notes"]
    assert any("autocorrelation 0.61" in note for note in notes)


def test_the_time_of_what_was_imported_is_said_to_be_that_of_the_import(machine: FakeRoot) -> None:
    fill()
    store = Store(Database.open("a.db"))
    store.begin(a_session("brought", label="nightly", origin="import:hyperfine", started_unix_ms=1_800_000_000_000))
    store.save(a_run(1, 0.01, session="brought"), {})
    store.close()
    notes = json.loads(shown(machine, "wakeup.p99", "--label", "nightly", "--json"))["notes"]
    assert "1 of 11 sessions were imported from files: they show the time of the import" in notes
