# SPDX-License-Identifier: Apache-2.0
"""Comparisons on the command line, of runs that were really made and of files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

from ktrial.cli.main import main
from ktrial.judge.model.comparison import Comparison
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from ktrial.tuning.state.state import MachineState, StateValue
from tests.support.stores import a_run, a_session
from tests.support.tree import FakeRoot, Ran

RESULTS = Path(__file__).resolve().parents[3] / "examples" / "results"
BLOCKS = ("--by", "kernel", "--block", "round", "--direction", "lower", "--control", "stock")
TABLE = ("wakeup.csv", *BLOCKS, "--value", "wakeup_p50_us", "--value", "wakeup_p99_us")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example results in a folder of their own, and a home."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    for file in RESULTS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    status = main(list(argv), out, err)
    return Ran(status, out.getvalue(), err.getvalue())


def comparison(*argv: str) -> Comparison:
    ran = run(*argv, "--json")
    assert ran.status == 0, ran.err
    return msgspec.json.decode(ran.out, type=Comparison)


def test_real_runs_of_two_labels(root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is a wait of a known length: 20 ms against 40 ms, in turns."""
    monkeypatch.setenv("COLUMNS", "80")
    for _ in range(6):
        for label, seconds in (("short", "0.02"), ("long", "0.04")):
            ran = run("bench", "-n", "1", "--fresh", "--label", label, "--", "/bin/sleep", seconds)
            assert ran.status == 0, ran.err
    ran = run("compare", "long", "short", "--json")
    assert ran.status == 0, ran.err
    refused = msgspec.json.decode(ran.out, type=Comparison)
    assert {contrast.verdict for one in refused.outcomes for contrast in one.contrasts} == {"not comparable"}
    assert any(one.kind == "other-command" for one in refused.findings)
    found = comparison("compare", "long", "short", "--declared", "command")
    assert found.scope == "on this boot, across 12 sessions"
    assert [arm.runs for arm in found.arms] == [6, 6]
    wall = next(one for one in found.outcomes if one.outcome == "wall")
    assert wall.contrasts[0].verdict in ("better", "inconclusive")
    assert wall.contrasts[0].blocks == 6, "each turn of the two labels is a block"
    effect = wall.contrasts[0].effect
    assert effect is not None
    assert effect.estimate > 0.3
    assert [point.place for point in wall.arms[0].points] == [2, 4, 6, 8, 10, 12]
    shown = run("show", wall.arms[0].points[0].run)
    assert shown.status == 0
    claim = run("claim", f"{wall.name} lower", "long", "short", "--declared", "command", "--json")
    assert claim.json["results"][0]["status"] in ("supported", "not supported by these data")
    power = run("power", "long", "--json")
    assert power.json["outcomes"][0]["pairs"] == 3


def test_what_else_differed_between_labels(place: Path) -> None:
    """The state that `bench` keeps tells of a knob that somebody turned in between."""
    store = Store(Database.open(str(place / "results.db")))
    for number, (label, swappiness) in enumerate((("stock", "60"), ("tuned", "10"))):
        path = "/proc/sys/vm/swappiness"
        files = {path: StateValue(text=swappiness)}
        state = MachineState(facts={}, knobs={"vm.swappiness": path}, files=files)
        store.begin(a_session(f"s{number}", label=label))
        store.save(a_run(1, session=f"s{number}"), {})
        store.keep_state(f"s{number}", "begin", state.canonical())
    store.close()
    compare = ("--store", str(place / "results.db"), "compare", "stock", "tuned")
    shown = run(*compare)
    assert shown.status == 0, shown.err
    assert "the tunable state of tuned has undeclared differences: vm.swappiness 60" in " ".join(shown.out.split())
    found = comparison(*compare, "--declared", "vm.swappiness")
    (change,) = [one for one in found.state_changes if one.name == "vm.swappiness"]
    assert (change.control_value, change.arm_value, change.declared) == ("60", "10", "--declared")
    assert not [one for one in found.findings if one.kind == "undeclared-state"]


def test_spread_is_doubted_from_where_the_user_says(place: Path) -> None:
    (place / "wide.csv").write_text("k,v\n" + "".join(f"a,{9 + n % 3}\nb,{9 + n % 2}\n" for n in range(8)))
    argv = ("compare", "wide.csv", "--by", "k", "--value", "v", "--direction", "lower")
    kinds = [
        {one.kind for outcome in found.outcomes for one in (*outcome.findings, *outcome.contrasts[0].findings)}
        for found in (comparison(*argv, "--spread", "5%"), comparison(*argv, "--spread", "90%"))
    ]
    assert kinds[0] - kinds[1] == {"swing"}


def test_blocks_of_a_table(place: Path) -> None:
    found = comparison("compare", *TABLE, "--primary", "wakeup_p50")
    assert [(one.outcome, one.role, one.contrasts[0].verdict) for one in found.outcomes] == [
        ("wakeup_p50", "primary", "better"),
        ("wakeup_p99", "secondary", "worse"),
    ]
    assert found.outcomes[0].contrasts[0].blocks == 12
    assert found.reproduce[0].startswith("ktrial compare wakeup.csv --control stock --primary wakeup_p50")
    again = main(found.reproduce[0].split()[1:], io.StringIO(), io.StringIO())
    assert again == 0


@pytest.mark.parametrize("control, arm, verdict", [("80", "69%", "not comparable"), ("80%", "71", "equivalent")])
def test_battery_levels_of_a_table_must_be_near(place: Path, control: str, arm: str, verdict: str) -> None:
    levels = {"a": control, "b": arm}
    rows = [
        f"{name},{block},{10 + block % 3 / 1000 + (name == 'b') / 1e4},{levels[name]}"
        for block in range(10)
        for name in ("ab" if block % 2 else "ba")
    ]
    (place / "levels.csv").write_text("\n".join(["k,block,v(s),Battery", *rows]) + "\n")
    found = comparison(
        "compare", "levels.csv", "--by", "k", "--block", "block", "--value", "v(s)", "--direction", "lower"
    )
    assert found.outcomes[0].contrasts[0].verdict == verdict
    assert all("Battery" not in finding.sentence for finding in found.findings)


def test_exit_status_of_a_guard(place: Path) -> None:
    ran = run("compare", *TABLE, "--fail-on", "worse")
    assert (ran.status, "1 verdict is worse" in ran.err) == (3, True)
    assert "wakeup_p99" in ran.out
    assert run("compare", *TABLE[:-2], "--fail-on", "worse").status == 0


def test_claims_about_a_table(place: Path) -> None:
    ran = run("claim", "p50 43% lower", *TABLE)
    assert ran.status == 0
    assert "refuted" in ran.out
    assert run("claim", "p50 43% lower", *TABLE, "--fail-on", "refuted").status == 3
    (place / "two.toml").write_text("[[claim]]\nsays = 'p50 -31%'\n\n[[claim]]\nsays = 'p99 lower'\narm = 'bore'\n")
    results = run("claim", "two.toml", *TABLE, "--json").json["results"]
    assert [one["status"] for one in results] == ["supported", "refuted"]


@pytest.mark.parametrize(
    "argv, said",
    [
        (("compare", "before.json"), "only one group"),
        (("compare", "before.json", "after.json"), "both before.json and after.json have the label"),
        (("compare", *TABLE, "--control", "zebra"), "use one of: stock, bore"),
        (("compare", "nothing", "other"), "run `ktrial bench --label NAME`"),
        (("compare", "a=./gone.json", "b=after.json"), "gone.json: no such file"),
        (("compare", "a=gone-*.json", "b=after.json"), "no file matches this pattern"),
        (("compare", *TABLE, "--margin", "much"), "expected a percentage above 0"),
        (("compare", *TABLE, "--margin", "0%"), "expected a percentage above 0"),
        (("compare", *TABLE, "--accept", " "), "requires a reason"),
        (("compare", *TABLE, "--exclude", "wakeup.csv#3"), "expected RUN:REASON"),
        (("compare", *TABLE, "--exclude", "wakeup.csv#99:hot"), "run of this comparison"),
        (("compare", *TABLE, "--declared", "vm.swapines"), "conditions: tool"),
        (("compare", "wakeup.csv", "--by", "color", "--value", "wakeup_p50_us"), "use one of: "),
        (("compare", *TABLE, "--by", "color"), "--by: expected one value, got kernel and color"),
        (("claim", "p50 much", *TABLE), "'p50 -43%'"),
        (("claim", "zebra -5%", *TABLE), "use one of: wakeup.wakeup_p50"),
        (("claim", "p50 -5%"), "no data to check the claim against"),
        (("claim", "gone.toml"), "no such file"),
        (("power",), "the noise of its runs is unknown"),
        (("power", "--sd", "3%", "before.json"), "cannot combine results with --sd"),
    ],
)
def test_bad_input_is_answered(place: Path, argv: tuple[str, ...], said: str) -> None:
    ran = run(*argv)
    assert ran.status == 2
    assert said in ran.err
    assert "next: " in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "data, text, said",
    [
        (
            TABLE,
            "[[claim]]\nsays = 'p50 -31%'\n[[claim]]\nsays = 'much'\n",
            "list.toml: [[claim]] 2: cannot read the claim 'much'",
        ),
        (TABLE, "[[claim]]\nsays = 'zebra -5%'\n", "list.toml: [[claim]] 1: unknown outcome: 'zebra'"),
        (
            (),
            "[[change]]\nwhat='x'\nfrom='0'\nto='5'\nsays='-5%'\n",
            "list.toml: [[change]] 1: cannot compute a ratio with 0",
        ),
    ],
)
def test_a_bad_claim_of_a_file_is_named_with_its_place(
    place: Path, data: tuple[str, ...], text: str, said: str
) -> None:
    (place / "list.toml").write_text(text)
    ran = run("claim", "list.toml", *data)
    assert (ran.status, said in ran.err, "next: " in ran.err) == (2, True, True)


def test_numbers_that_are_none(place: Path) -> None:
    document = json.loads((place / "before.json").read_text())
    document["results"][0]["times"][0] = float("nan")
    (place / "nan.json").write_text(json.dumps(document))
    assert run("compare", "a=nan.json", "b=after.json").status == 2


def test_one_run_and_equal_runs_decide_nothing(place: Path) -> None:
    for name, rows in (("one", "a,1\nb,2\n"), ("same", "a,1\n" * 9 + "b,1\n" * 9), ("zeros", "a,0\nb,0\n" * 8)):
        (place / f"{name}.csv").write_text(f"k,v\n{rows}")
        found = comparison("compare", f"{name}.csv", "--by", "k", "--value", "v", "--direction", "lower")
        assert found.outcomes[0].contrasts[0].verdict == "inconclusive", name


def test_a_pattern_takes_several_files_as_one_arm(place: Path) -> None:
    (place / "more-1.json").write_bytes((place / "before.json").read_bytes())
    (place / "more-2.json").write_bytes((place / "after.json").read_bytes())
    found = comparison("compare", "all=more-*.json", "after=after.json")
    assert [(arm.arm, arm.runs, len(arm.sources)) for arm in found.arms] == [("all", 20, 2), ("after", 10, 1)]


def test_other_formats_are_compared_without_being_kept(place: Path) -> None:
    for name, base in (("old", 1000.0), ("new", 900.0)):
        lines = [f"BenchmarkX 100 {base + 3 * number:.1f} ns/op\n" for number in range(8)]
        (place / f"{name}.txt").write_text("".join(lines))
    found = comparison("compare", "old=old.txt", "new=new.txt")
    assert found.outcomes[0].unit == "s"
    assert "is empty" in run("runs").err
