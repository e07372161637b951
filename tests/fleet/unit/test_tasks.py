# SPDX-License-Identifier: Apache-2.0
"""What a task returns for the answers of ktrial: what changed, what differs, and why it failed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.lasting import keep_settings
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.program import Ktrial, TaskFailed
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.settings import (
    apply_settings,
    plan_of,
    revert_settings,
    verify_settings,
    words_of,
)
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.trials import step_trial

#: A program that answers from a file, and writes down how it was called.
FAKE = """#!/bin/sh
echo "$*" >> {folder}/calls
name=$(for word; do case $word in -*) ;; *) printf %s- "$word" ;; esac; done)
for file in {folder}/answers/*; do
    case $name in "$(basename "$file")"-*) status=$(head -n 1 "$file"); tail -n +2 "$file"; exit "$status" ;; esac
done
echo "ktrial: no answer for $*" >&2
exit 1
"""
Fake = Callable[..., Ktrial]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Returns a ktrial with these answers: name of a verb to exit status and documents."""
    (tmp_path / "answers").mkdir()
    program = tmp_path / "ktrial"
    program.write_text(FAKE.format(folder=tmp_path))
    program.chmod(0o755)

    def make(**answers: Any) -> Ktrial:
        for name, answer in answers.items():
            status, *documents = answer if isinstance(answer, tuple) else (0, answer)
            text = "\n".join(json.dumps(one) for one in documents)
            (tmp_path / "answers" / name.replace("_", "-")).write_text(f"{status}\n{text}\n")
        return Ktrial([str(program)], {"PATH": "/usr/bin:/bin"})

    return make


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def given(**more: Any) -> dict[str, Any]:
    settings = {"settings": {"vm.swappiness": 10}, "profiles": [], "allow_dangerous": False}
    keep = {"trial": None, "state": "present", "next_boot": False, "anyway": False, "loader": None}
    return {**settings, **keep, "allow_security": [], "revert_after": None, "keep_going": False, **more}


def step(before: str, after: str, **more: Any) -> dict[str, Any]:
    return {"kind": "write", "knob": "vm.swappiness", "path": "/proc/x", "expect": before, "new": after, **more}


def plan(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"same": [], "refusals": [], "inert": [], "wrong": []}
    return {"schema": "ktrial.resolved/1", "plan": {"steps": list(steps)}, **empty, **more}


APPLIED = {"schema": "ktrial.applied/1", "transaction": 7, "state": "applied", "steps": [{"outcome": "accepted"}]}
SAME = {"knob": "vm.swappiness", "path": "/proc/x", "value": "10"}
REFUSED = {"knob": "vm.swappiness", "why": "absent", "reason": "no such file", "hint": None}


def test_what_differs_is_applied(fake: Fake, tmp_path: Path) -> None:
    program = fake(plan=plan(step("60\n", "10\n")), apply=APPLIED)
    found = apply_settings(program, given(revert_after="10m", keep_going=True), writes=True)
    assert (found["changed"], found["transaction"]) == (True, 7)
    assert found["changes"] == [{"knob": "vm.swappiness", "before": "60", "after": "10"}]
    assert calls(tmp_path) == [
        "plan --json -- vm.swappiness=10",
        "apply --json --yes --for 10m --keep-going -- vm.swappiness=10",
    ]


def test_a_check_writes_nothing(fake: Fake, tmp_path: Path) -> None:
    found = apply_settings(fake(plan=plan(step("60\n", "10\n"))), given(), writes=False)
    assert (found["changed"], found["transaction"]) == (True, None)
    (shown,) = found["diff"]
    assert (shown["before"], shown["after"]) == ("60\n", "10\n")
    assert calls(tmp_path) == ["plan --json -- vm.swappiness=10"]


def test_what_is_in_force_is_left_alone(fake: Fake, tmp_path: Path) -> None:
    found = apply_settings(fake(plan=plan(same=[SAME])), given(), writes=True)
    assert (found["changed"], found["unchanged"]) == (False, [{"knob": "vm.swappiness", "value": "10"}])
    assert len(calls(tmp_path)) == 1


def test_settings_that_the_machine_cannot_take(fake: Fake) -> None:
    with pytest.raises(TaskFailed, match=r"nothing was applied; vm\.swappiness was skipped: no such file"):
        apply_settings(fake(plan=plan(refusals=[REFUSED])), given(), writes=True)
    found = apply_settings(fake(plan=plan(same=[SAME], refusals=[REFUSED])), given(), writes=True)
    assert found["warnings"] == ["skipped vm.swappiness: no such file"]


def test_a_machine_that_does_not_accept_the_values(fake: Fake) -> None:
    steps = [{"path": "/proc/x", "outcome": "refused", "message": "Invalid argument"}]
    program = fake(plan=plan(step("60\n", "10\n")), apply=(1, {**APPLIED, "state": "rolled-back", "steps": steps}))
    with pytest.raises(TaskFailed, match="nothing was applied: /proc/x: Invalid argument"):
        apply_settings(program, given(), writes=True)


def test_the_chosen_one_of_several_is_shown(fake: Fake) -> None:
    program = fake(plan=plan(step("always [madvise] never\n", "never\n"), step({"base64": "/w=="}, "1\n")))  # type: ignore[arg-type]
    before = [one["before"] for one in plan_of(program, given())["changes"]]
    assert before == ["madvise", "(bytes that are not text)"]


@pytest.mark.parametrize(
    "more, why",
    [
        ({"settings": {"vm.x": True}}, "vm.x: expected text or a number, got True"),
        ({"settings": {"vm.x": [1]}}, "expected text"),
        ({"settings": {}}, "names no settings and no profiles"),
        ({"settings": {}, "profiles": ["--all"]}, "--all: not the name"),
    ],
)
def test_words_that_are_no_settings(more: dict[str, Any], why: str) -> None:
    with pytest.raises(TaskFailed, match=why):
        words_of(given(**more))


@pytest.mark.parametrize(
    "value, hint",
    [(True, "put the value into quotes"), ([1], "write text or a number"), (None, "write text or a number")],
)
def test_a_value_of_another_type_gets_a_hint_that_helps(value: object, hint: str) -> None:
    with pytest.raises(TaskFailed) as failure:
        words_of(given(settings={"vm.x": value}))
    assert failure.value.result["hint"] == hint


def test_a_mistake_in_one_word_is_told(fake: Fake) -> None:
    wrong = [{"word": "vm.x=1", "error": "unknown knob: 'vm.x'", "next": "look"}]
    with pytest.raises(TaskFailed) as failure:
        plan_of(fake(plan=(2, plan(wrong=wrong))), given())
    assert (failure.value.result["msg"], failure.value.result["rc"]) == ("unknown knob: 'vm.x'; next: look", 2)


def test_a_value_that_changed_since_fails_the_check(fake: Fake) -> None:
    def verified(outcome: str) -> dict[str, Any]:
        return {"transactions": [{"transaction": 1, "steps": [{"path": "/proc/x", "outcome": outcome}]}]}

    assert not verify_settings(fake(verify=verified("in-force")), {"transaction": None}, writes=True)["changed"]
    with pytest.raises(TaskFailed, match="no longer in force: /proc/x") as failure:
        verify_settings(fake(verify=(3, verified("changed"))), {"transaction": 1}, writes=True)
    assert failure.value.result["rc"] == 3


def journaled(number: int, state: str = "applied") -> dict[str, Any]:
    return {"transaction": number, "state": state, "steps": [step("", "10\n", old="60\n")]}


JOURNAL = {"transactions": [journaled(1), journaled(2, "reverted"), journaled(3), journaled(4, "unfinished")]}


@pytest.mark.parametrize(
    "more, chosen, words",
    [
        ({}, [4, 3, 1], "--all"),
        ({"newer_than": 1}, [4, 3], "--to 1"),
        ({"transaction": 3}, [3], "--only 3"),
        ({"transaction": 2}, [], None),
        ({"newer_than": 9}, [], None),
    ],
)
def test_only_what_is_in_force_is_reverted(
    fake: Fake, tmp_path: Path, more: dict[str, Any], chosen: list[int], words: str | None
) -> None:
    done = {"transactions": [{"transaction": 4, "steps": [{"path": "/proc/x", "outcome": "restored", "message": ""}]}]}
    program = fake(status=JOURNAL, revert=done)
    options = {"transaction": None, "newer_than": None, "force": False, **more}
    checked = revert_settings(program, options, writes=False)
    assert (checked["changed"], checked["transactions"]) == (bool(chosen), chosen)
    assert len(calls(tmp_path)) == 1
    assert revert_settings(program, options, writes=True)["changed"] == bool(chosen)
    assert calls(tmp_path)[2:] == ([] if words is None else [f"revert --json {words}"])


def test_a_value_that_somebody_else_changed_is_a_failure(fake: Fake) -> None:
    left = {"path": "/proc/x", "outcome": "changed-since", "message": "another program wrote 5"}
    program = fake(status=JOURNAL, revert=(1, {"transactions": [{"transaction": 4, "steps": [left]}]}))
    with pytest.raises(TaskFailed, match="not everything was restored: /proc/x: another program wrote 5") as caught:
        revert_settings(program, {"transaction": None, "newer_than": None, "force": False}, writes=True)
    # With `force: true` the task would find nothing to revert: the transaction is closed.
    assert "run `ktrial revert --only 4 --force` with --host for this machine" in str(caught.value)


def kept(state: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    files = [{"path": "/etc/sysctl.d/ktrial.conf", "before": None, "after": "vm.swappiness = 10\n"}] if steps else []
    empty: dict[str, Any] = {"settings": [], "left_out": [], "transaction": 3 if state == "applied" else None}
    return {"schema": "ktrial.keep/1", "state": state, "plan": {"steps": list(steps)}, "files": files, **empty, **more}


def test_settings_are_kept_once(fake: Fake, tmp_path: Path) -> None:
    planned = kept("planned", step("60\n", "10\n"), {"kind": "file", "path": "/etc/sysctl.d/ktrial.conf"})
    found = keep_settings(fake(keep=planned), given(next_boot=True, allow_security=["a"]), writes=False)
    assert (found["changed"], found["files"]) == (True, ["/etc/sysctl.d/ktrial.conf"])
    assert [one["after"] for one in found["diff"]] == ["vm.swappiness = 10\n", "10\n"]
    assert calls(tmp_path) == ["keep --json --dry-run --next-boot --yes-security a -- vm.swappiness=10"]
    assert not keep_settings(fake(keep=kept("nothing-to-do")), given(), writes=True)["changed"]
    assert len(calls(tmp_path)) == 2


DRIFT = {"settings": [{"address": "vm.swappiness"}, {"address": "vm.page-cluster"}]}


def test_only_what_is_kept_is_taken_back(fake: Fake, tmp_path: Path) -> None:
    program = fake(drift=DRIFT, keep=kept("planned", step("10\n", "60\n")))
    found = keep_settings(program, given(state="absent"), writes=False)
    assert (found["changed"], found["settings"]) == (True, [{"address": "vm.swappiness"}])
    assert not keep_settings(program, given(state="absent", settings={"vm.x": 1}), writes=True)["changed"]
    everything = fake(keep={"schema": "ktrial.unkept/1", "kept": [5], "transactions": []})
    found = keep_settings(everything, given(state="absent", settings={}), writes=False)
    assert (found["changed"], len(found["settings"])) == (True, 2)
    assert [one for one in calls(tmp_path) if one.startswith("keep")] == [
        "keep --json --dry-run --undo vm.swappiness",
        "keep --json --dry-run --undo",
    ]


TRIAL = {"trial": "backlog", "name": "backlog", "ended": None, "blocks": 7}
TURN = {
    "event": "turn",
    "trial": "backlog",
    "state": "running",
    "blocks": 8,
    "cap": 20,
    "next_look_s": 30.0,
    "in_use": None,
}
STEP = "--unattended --turn --json"


def trial(**more: Any) -> dict[str, Any]:
    return {"file": None, "name": "backlog", "state": "started", "fence": None, "when_idle": False, **more}


def test_a_trial_starts_once(fake: Fake, tmp_path: Path) -> None:
    file = tmp_path / "backlog.toml"
    file.write_text('name = "backlog"\n')
    program = fake(trial_list={"trials": []}, trial_run=(0, {"event": "began"}, {**TURN, "blocks": 0}))
    options = trial(file=str(file), name=None, fence=4, when_idle=True)
    assert step_trial(program, options, writes=False) == {"changed": True, "trial": "backlog"}
    found = step_trial(program, options, writes=True)
    assert (found["changed"], found["state"], found["next_look_s"]) == (True, "running", 30.0)
    assert calls(tmp_path)[-1] == f"trial run {STEP} --when-idle --fence 4 {file}"
    again = step_trial(fake(trial_list={"trials": [TRIAL]}), options, writes=True)
    assert again == {"changed": False, "trial": "backlog", "state": "running", "blocks": 7}


@pytest.mark.parametrize("blocks, changed", [(7, False), (8, True)])
def test_collecting_changes_something_if_there_are_more_blocks(fake: Fake, blocks: int, changed: bool) -> None:
    program = fake(trial_list={"trials": [TRIAL]}, trial_resume={**TURN, "blocks": blocks, "in_use": "/dev/tty1"})
    found = step_trial(program, trial(state="collected"), writes=True)
    assert (found["changed"], found["in_use"]) == (changed, "/dev/tty1")


def test_live_work_is_watched_by_a_process_that_goes_on(fake: Fake, tmp_path: Path) -> None:
    program = fake(trial_run=(0, {"event": "began"}))
    options = trial(state="watched", fence=4, fleet="live-1", output=str(tmp_path / "out"))
    assert step_trial(program, options, writes=False) == {"changed": True}
    found = step_trial(program, {**options, "file": "own.toml"}, writes=True)
    os.waitpid(found["process"], 0)
    assert calls(tmp_path) == ["trial run own.toml --json --fence 4 --fleet live-1"]
    assert json.loads((tmp_path / "out").read_text()) == {"event": "began"}
    os.waitpid(step_trial(program, options, writes=True)["process"], 0)
    assert calls(tmp_path)[-1] == "trial resume backlog --json --fence 4 --fleet live-1"


def test_the_last_step_brings_the_result(fake: Fake, tmp_path: Path) -> None:
    ended = {**TURN, "state": "ended", "next_look_s": None}
    program = fake(trial_list={"trials": [TRIAL]}, trial_resume=(3, ended, {"schema": "ktrial.trial/1"}))
    found = step_trial(program, trial(state="collected"), writes=True)
    assert (found["state"], found["result"], found["tripped"]) == ("ended", {"schema": "ktrial.trial/1"}, True)
    over = fake(trial_list={"trials": [{**TRIAL, "ended": "decided"}]})
    for state in ("collected", "stopped"):
        assert step_trial(over, trial(state=state), writes=True)["state"] == "ended"
    assert [one for one in calls(tmp_path) if "list" not in one] == [f"trial resume {STEP} backlog"]


def test_a_trial_that_nobody_started(fake: Fake, tmp_path: Path) -> None:
    program = fake(trial_list={"trials": []})
    with pytest.raises(TaskFailed, match="unknown trial: 'backlog'"):
        step_trial(program, trial(state="collected"), writes=True)
    with pytest.raises(TaskFailed, match="the task names no protocol file"):
        step_trial(program, trial(), writes=True)
    with pytest.raises(TaskFailed, match=r"cannot read the trial in .*: No such file"):
        step_trial(program, trial(file=str(tmp_path / "no.toml"), name=None), writes=True)
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(TaskFailed, match=r"cannot read the trial in .*; next: correct the file"):
        step_trial(program, trial(file=str(tmp_path / "broken.toml"), name=None), writes=True)
