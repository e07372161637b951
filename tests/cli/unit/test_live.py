# SPDX-License-Identifier: Apache-2.0
"""What `ktrial live` refuses before it touches anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ktrial.cli.app import App
from ktrial.cli.shared import live_control
from ktrial.cli.shared.live_plan import most_blocks
from ktrial.kit.errors import Refused
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.protocol.live import LiveFile
from tests.support.tree import FakeRoot

SOURCE = ("--metric", f"v_ms:lower=log:{__file__}?match=took ([0-9]+) ms")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    machine = FakeRoot(tmp_path / "machine")
    machine.write("/.ktrial-test-machine", "")
    machine.write("/proc/sys/vm/nr_hugepages", "0\n")
    machine.write("/proc/sys/net/core/somaxconn", "4096\n")
    return machine


@pytest.mark.parametrize(
    "words, status, told",
    [
        (("vm.swappiness=10",), 2, "nothing to watch"),
        (("vm.swappiness=10", *SOURCE, "--limit-metric", "v=fast"), 2, "--limit-metric v=fast: expected a number"),
        (("vm.swappiness=10", *SOURCE, "--quiet", "22-6"), 2, "quiet: expected two different times of day, got '22-6'"),
        (("vm.swappiness=10", *SOURCE, "--for", "soon"), 2, "for: expected a duration up to 60 days, got 'soon'"),
        (("vm.nr_hugepages=8", *SOURCE), 4, "cannot switch vm.nr_hugepages back and forth under live work"),
        (("net.core.somaxconn=8192", *SOURCE), 4, "cannot try net.core.somaxconn on running programs"),
        (("vm.swappiness=10", "--rate"), 4, "cannot ask for ratings: there is no terminal"),
        (("vm.swappiness=10", *SOURCE, "--guard", "w=5%"), 2, "unknown metric: 'w'"),
        (("vm.swappiness=10", "--metric", "v_ms:lower=log:/none?match=([0-9]+)"), 2, "cannot read /none: No such file"),
        (
            ("vm.swappiness=10", *SOURCE, "--poll", "5s", "--period", "8s"),
            2,
            "reads the source every 5 s, less than twice in a period of 8 s",
        ),
        (("vm.swappiness=10", *SOURCE, "--period", "1h", "--for", "2h"), 2, "7 blocks of 2 h 0 min do not fit into 2h"),
    ],
)
def test_a_live_trial_that_cannot_be_is_refused(root: FakeRoot, words: tuple[str, ...], status: int, told: str) -> None:
    before = root.values()
    ran, dry = root.run("live", *words), root.run("live", *words, "--dry-run")
    assert (ran.status, told in ran.err) == (status, True), ran.err
    assert (dry.status, dry.err[dry.err.index(told) :]) == (status, ran.err[ran.err.index(told) :])
    assert root.values() == before


def test_a_dry_run_of_a_live_trial_prints_a_protocol_and_changes_nothing(root: FakeRoot) -> None:
    before = root.values()
    ran = root.run("live", "vm.swappiness=10", *SOURCE, "--guard", "v_ms=20%", "--dry-run")
    assert (ran.status, ran.err) == (0, ""), ran.err
    assert f'"v_ms:lower=log:{__file__}?' in ran.out
    assert root.values() == before


def test_a_setting_for_new_programs_is_tried_if_each_arm_restarts_them(root: FakeRoot, tmp_path: Path) -> None:
    protocol = root.run("live", "net.core.somaxconn=8192", *SOURCE, "--dry-run").out
    restart = 'commands = [{ run = ["true"], undo = ["true"] }]\n'
    one = protocol.replace("[arms.somaxconn-8192]\n", f"[arms.somaxconn-8192]\n{restart}")
    both = one.replace("[arms.control]\n", f"[arms.control]\n{restart}")
    for text, refused in ((one, True), (both, False)):
        file = tmp_path / "live.toml"
        file.write_text(text + 'period = "1h"\nfor = "2h"\n')  # too short: it is refused in any case
        ran = root.run("trial", "run", str(file))
        assert ("on running programs" in ran.err, "do not fit into 2h" in ran.err) == (refused, not refused), ran.err


def test_nothing_can_be_paused_that_does_not_run(root: FakeRoot) -> None:
    ran = root.run("trial", "pause")
    assert (ran.status, "cannot pause a trial: no live trial is running" in ran.err) == (4, True), ran.err


@pytest.mark.parametrize(
    "live, running, hint",
    [
        (True, (), "run `ktrial trial show t-1` to see its last step"),
        (False, (), "interrupt a trial that is not live with Ctrl-C"),
        (False, ("u-2",), "name a live trial that is running: u-2"),
    ],
)
def test_a_trial_that_cannot_be_paused_gets_a_hint_that_fits(
    live: bool, running: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = SimpleNamespace(trial="t-1", file=SimpleNamespace(live=object() if live else None))
    app = cast(App, SimpleNamespace(trials=SimpleNamespace(find=lambda _: stored)))
    monkeypatch.setattr(live_control, "running_trials", lambda _: running)
    with pytest.raises(Refused, match=r"^cannot pause t-1: it is not running as a live trial$") as caught:
        live_control.pause_trial(app, "t-1")
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "for_, switches, budget, blocks",
    [(None, None, "default", 20), ("2h", None, "default", 480), ("2d", None, "quick", 9), ("2d", 60, "default", 60)],
)
def test_a_trial_with_a_time_may_have_as_many_blocks_as_fit(
    for_: str | None, switches: int | None, budget: str, blocks: int
) -> None:
    arms = {"control": ArmFile(), "case": ArmFile(set={"vm.swappiness": "10"})}
    live = LiveFile(metrics=("m",), for_=for_, switches=switches)
    assert most_blocks(TrialFile(name="t", arms=arms, design=DesignFile(budget=budget), live=live)) == blocks
