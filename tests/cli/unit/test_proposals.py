# SPDX-License-Identifier: Apache-2.0
"""The verbs that propose, take apart and stack settings: what they answer where there is nothing to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.unit.test_main import run
from tests.support.tree import FakeRoot


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the head."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "argv, words",
    [
        (("suggest", "--goal", "gamin"), "did you mean gaming?"),
        (("tune", "gamin"), "did you mean gaming?"),
        (("tune", "ktweak"), "nothing to measure for the profile ktweak"),
        (("ladder", "arash", "--", "true"), "did you mean arashi?"),
        (("ladder", "ktweak", "--", "true"), "ktweak has no tiers"),
        (("ladder", "./none.toml", "--", "true"), "no such file"),
        (("ladder", "arashi", "--mode", "exact"), "--mode requires --guest"),
        (("ladder", "arashi", "--kernel", "T1"), "--kernel 'T1': expected NAME=VALUE"),
        (("ladder", "arashi", "--kernel", "T1="), "--kernel T1=: expected TIER=KERNEL"),
        (("ladder", "arashi", "--kernel", "T1a=./k"), "did you mean T1"),
        (("ladder", "arashi", "--guest", "--", "true"), "a trial in guests cannot have `command`"),
        (("blame", "--memory", "1GiB", "vm.swappiness=1"), "--memory requires --guest"),
        (("blame", "--known", "worse", "--", "true"), "nothing to try"),
        (("blame", "vm.swapiness=1", "--", "true"), "did you mean vm.swappiness?"),
        (("ledger", "--json", "--markdown"), "cannot combine --markdown with --json"),
        (("retest",), "nothing to retest: no trial is out of date"),
        (("retest", "x"), "no trials yet"),
    ],
)
def test_what_cannot_be_meant_is_said(argv: tuple[str, ...], words: str) -> None:
    status, _, err = run(*argv)
    assert (status, words in err) == (2, True), err


@pytest.mark.parametrize("argv", [("blame", "--env", "A=1", "--env", "B=1", "--", "true"), ("tune", "gaming")])
def test_trials_run_on_this_machine_only(argv: tuple[str, ...], tmp_path: Path) -> None:
    ran = FakeRoot(tmp_path / "root").run(*argv)
    assert "trials run on machines, not in folders" in ran.err


def test_proposals_are_of_the_machine_that_is_looked_at(tmp_path: Path) -> None:
    machine = FakeRoot(tmp_path / "root")
    before = machine.values()
    settings = [
        one["candidate"]["settings"] for one in machine.run("suggest", "--goal", "gaming", "--json").json["candidates"]
    ]
    assert {"vm.page-cluster": "0"} in settings
    machine.write("/proc/sys/vm/page-cluster", "0\n")
    settings = [
        one["candidate"]["settings"] for one in machine.run("suggest", "--goal", "gaming", "--json").json["candidates"]
    ]
    assert {"vm.page-cluster": "0"} not in settings
    assert machine.values() == {**before, "proc/sys/vm/page-cluster": "0\n"}


def test_the_ledger_of_nothing_is_said() -> None:
    assert "No trials on this machine yet" in run("ledger")[1]


def test_a_ladder_and_a_tuning_say_what_they_would_do() -> None:
    status, out, err = run("tune", "throughput", "--dry-run", "--most", "2")
    assert status == 0 or "none of its settings would change anything here" in err
    assert out == ""
