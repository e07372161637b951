# SPDX-License-Identifier: Apache-2.0
"""What `ktrial live` refuses before it touches anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tree import FakeRoot

SOURCE = ("--metric", "v_ms:lower=command:echo 1")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    machine = FakeRoot(tmp_path / "machine")
    machine.write("/.ktrial-test-machine", "")
    machine.write("/proc/sys/vm/nr_hugepages", "0\n")
    return machine


@pytest.mark.parametrize(
    "words, status, told",
    [
        (("vm.swappiness=10",), 2, "nothing to watch"),
        (("vm.swappiness=10", *SOURCE, "--limit-metric", "v=fast"), 2, "--limit-metric v=fast: expected a number"),
        (("vm.swappiness=10", *SOURCE, "--quiet", "22-6"), 2, "quiet: expected two times of day, got '22-6'"),
        (("vm.swappiness=10", *SOURCE, "--for", "soon"), 2, "for: expected a duration up to 60 days, got 'soon'"),
        (("vm.nr_hugepages=8", *SOURCE), 4, "cannot switch vm.nr_hugepages back and forth under live work"),
        (("vm.swappiness=10", "--rate"), 4, "cannot ask for ratings: there is no terminal"),
    ],
)
def test_a_live_trial_that_cannot_be_is_refused(root: FakeRoot, words: tuple[str, ...], status: int, told: str) -> None:
    before = root.values()
    ran = root.run("live", *words)
    assert (ran.status, told in ran.err) == (status, True), ran.err
    assert root.values() == before


def test_nothing_can_be_paused_that_does_not_run(root: FakeRoot) -> None:
    ran = root.run("trial", "pause")
    assert (ran.status, "cannot pause a trial: no live trial runs" in ran.err) == (4, True), ran.err
