# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep TRIAL`: what a trial found better is kept with its verdict, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktrial.cli.app import App
from ktrial.judge.model.log import Event, Protocol, RunEnded
from ktrial.machine.facts import machine_of
from ktrial.results.store.recorder import Recorder
from ktrial.trial.kept_trial import KeptTrial
from tests.support.told_trials import P99, Kept, a_trial
from tests.support.tree import FakeRoot

SYSCTL = "/etc/sysctl.d/ktrial.conf"
TRIAL = "swappiness-abcdef"


def with_trial(root: FakeRoot, machine: str | None = None, kept: Kept | None = None) -> FakeRoot:
    """A machine with a trial in its store: vm.swappiness=10 is better, 180 is worse."""
    kept = kept or a_trial()
    app = App(may_ask=False, machine_root=root.folder)
    try:
        here = machine_of(app.user_session.facts())
        stored = msgspec.structs.replace(kept.stored, machine=machine or here)
        session = kept.records[0].session
        Recorder(lambda: app.store, lambda: 0).begin(session, stored.protocol_sha256)
        app.trials.bring([KeptTrial(stored=stored, log=kept.log)])
    finally:
        app.close()
    return root


@pytest.fixture
def tried(root: FakeRoot) -> FakeRoot:
    return with_trial(root)


def test_the_arm_that_was_better_is_kept_with_its_verdict(tried: FakeRoot) -> None:
    done = tried.run("keep", TRIAL, "--yes")
    assert done.status == 0, done.err
    text = " ".join(tried.read(SYSCTL).replace("\n#", "").split())
    assert "vm.swappiness: better: tool.rate (memory-pressure) +" in text
    assert "on one boot" in text
    assert f"trial {TRIAL}/sw10, 2023-11-14" in text
    assert tried.read(SYSCTL).endswith("\nvm.swappiness = 10\n")


@pytest.mark.parametrize("arm, verdict", [("sw180", "worse"), ("sw60", "equivalent")])
def test_an_arm_that_was_not_better_is_not_kept(tried: FakeRoot, arm: str, verdict: str) -> None:
    done = tried.run("keep", f"{TRIAL}/{arm}", "--yes")
    assert done.status == 4
    assert f"cannot keep {TRIAL}/{arm}, which is {verdict}: " in done.err
    assert not (tried.folder / SYSCTL[1:]).exists()


def a_front(better: str) -> Kept:
    """The trial as a front of rate and p99, in which this arm is also better in p99."""
    kept = a_trial()
    fixed, *rest = kept.log
    assert isinstance(fixed, Protocol)
    rule = msgspec.structs.replace(fixed.outcomes[P99], role="secondary")
    log: list[Event] = [msgspec.structs.replace(fixed, outcomes={**fixed.outcomes, P99: rule})]
    for one in rest:
        if isinstance(one, RunEnded) and one.arm == better and P99 in one.measurements:
            one = msgspec.structs.replace(one, measurements={**one.measurements, P99: 0.7 * one.measurements[P99]})  # noqa: PLW2901
        log.append(one)
    file = msgspec.structs.replace(kept.stored.file, guards={}, secondary=("p99", "faults"), front=("p99",))
    return Kept(msgspec.structs.replace(kept.stored, file=file), tuple(log), kept.records)


def test_a_point_of_a_front_is_kept_with_its_price_if_it_is_better_in_one_outcome(root: FakeRoot) -> None:
    tried = with_trial(root, kept=a_front("sw180"))
    done = tried.run("keep", f"{TRIAL}/sw60", "--yes")
    assert (done.status, f"cannot keep {TRIAL}/sw60, which is equivalent" in done.err) == (4, True)
    several = tried.run("keep", TRIAL, "--yes")
    assert (several.status, f"name one of: {TRIAL}/sw10, {TRIAL}/sw180" in " ".join(several.err.split())) == (2, True)
    done = tried.run("keep", f"{TRIAL}/sw180", "--yes")
    assert done.status == 0, done.err
    text = " ".join(tried.read(SYSCTL).replace("\n#", "").split())
    assert "vm.swappiness: better: tool.p99 (memory-pressure) -" in text
    assert "worse in tool.rate" in text
    assert text.endswith("vm.swappiness = 180")


def test_a_trial_of_placebos_has_no_arm_to_keep(root: FakeRoot) -> None:
    kept = a_trial()
    file = kept.stored.file
    arms = {
        name: arm if name == file.control else msgspec.structs.replace(arm, placebo=True)
        for name, arm in file.arms.items()
    }
    stored = msgspec.structs.replace(kept.stored, file=msgspec.structs.replace(file, arms=arms))
    done = with_trial(root, kept=Kept(stored, kept.log, kept.records)).run("keep", TRIAL, "--yes")
    assert (done.status, f"{TRIAL} has no arms except placebos" in done.err) == (2, True)


def test_a_setting_that_is_named_is_kept_with_its_verdict_whatever_that_is(tried: FakeRoot) -> None:
    done = tried.run("keep", "vm.swappiness=180", "--yes")
    assert done.status == 0, done.err
    assert "# vm.swappiness: worse: tool.rate (memory-pressure) -" in tried.read(SYSCTL)


def test_a_profile_is_kept_without_what_did_not_help(tried: FakeRoot, tmp_path: Path) -> None:
    profile = tmp_path / "own.toml"
    profile.write_text(
        'name = "own"\nsummary = "Own settings."\n'
        '[[setting]]\nknob = "vm.swappiness"\nvalue = 180\n[[setting]]\nknob = "vm.page-cluster"\nvalue = 0\n'
    )
    done = tried.run("keep", str(profile), "--yes")
    assert done.status == 0, done.err
    assert "vm.swappiness=180: it is worse: tool.rate (memory-pressure)" in " ".join(done.out.split())
    assert "to keep this setting anyway" in " ".join(done.out.split())
    assert "swappiness" not in tried.read(SYSCTL)
    assert tried.read("/proc/sys/vm/swappiness") == "60\n"


def test_the_verdict_of_another_machine_is_not_taken(root: FakeRoot) -> None:
    with_trial(root, "model Other CPU")
    done = root.run("keep", TRIAL, "--yes")
    assert done.status == 4
    assert "measured on another machine (model Other CPU)" in done.err
    assert root.run("keep", "vm.swappiness=10", "--yes").status == 0
    assert "not tested on this machine" in root.read(SYSCTL)


def test_an_unknown_word_is_a_trial_that_does_not_exist(tried: FakeRoot) -> None:
    done = tried.run("keep", "swapiness-abcdef", "--yes")
    assert done.status == 2
    assert TRIAL in done.err
    assert tried.run("keep", f"{TRIAL}/nosuch", "--yes").status == 2


def test_of_a_trial_without_an_arm_the_better_one_is_exported_as_it_is_kept(tried: FakeRoot) -> None:
    assert "vm.swappiness = 10\n" in tried.run("export", TRIAL, "--to", "sysctl.d").out


def test_a_transaction_is_kept_with_what_it_cannot_name(tried: FakeRoot) -> None:
    assert tried.run("keep", "vm.swappiness=20", "--yes").status == 0
    done = tried.run("keep", "1", "--dry-run")
    assert f"{SYSCTL}: it is not a value of a knob" in " ".join(done.out.split())


def test_a_file_of_somebody_else_matters_only_to_who_would_write_it(tried: FakeRoot) -> None:
    tried.write("/etc/udev/rules.d/ktrial.rules", "# own\n")
    assert tried.run("drift").status == 0
    done = tried.run("keep", "vm.swappiness=10", "--yes")
    assert (done.status, "ktrial did not write this file" in done.err) == (4, True)
