# SPDX-License-Identifier: Apache-2.0
"""Arms that are boots of this machine: with other kernel arguments, or with another installed kernel.

ktrial prepares a boot loader entry for each arm, and recognises the arm by the name of its entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.tuning.boots.command_line import MARK, WordChange, parse_changes
from ktrial.tuning.boots.entry import REHEARSAL, TRIAL

#: The benchmark that is part of every trial over boots, and its outcome.
BOOT_TIME = "boot-time"
_TOTAL = f"{BOOT_TIME}.total"
_LINE = "kernel.command_line"
#: Fields with the changes that need another boot.
_PARTS: Mapping[str, Any] = {"manual": None, "expect": {}, "boot": (), "kernel": None, "set": {}, "profile": ()}


def boots_this_machine(trial: TrialFile) -> bool:
    """Return whether ktrial boots this machine for the trial's arms.

    This includes a trial whose arms have only settings, if it belongs to a question across boots.
    """
    return trial.guest is None and any(
        arm.boot or arm.kernel is not None or _has_entry(name, arm) for name, arm in trial.arms.items()
    )


def _has_entry(name: str, arm: ArmFile) -> bool:
    return f"{MARK}={entry_of(name)}" in str(arm.expect.get(_LINE, "")).split()


def entry_of(arm: str) -> str:
    """Return the name of the boot entry of an arm."""
    return "ktrial-" + re.sub(r"[^A-Za-z0-9]+", "-", arm).strip("-")


def times_boots(trial: TrialFile) -> bool:
    """Return whether every visit also measures the time of its boot."""
    is_over_boots = trial.guest is None and trial.design.replicate == "boot"
    return is_over_boots and _TOTAL in {trial.primary, *trial.secondary, *trial.guards}


def check_boot_arms(trial: TrialFile) -> None:
    """Raise BadInput for arms that a trial over boots of this machine cannot have."""
    entries: dict[str, str] = {}
    for name, arm in trial.arms.items():
        if arm.boot:
            parse_changes(arm.boot)
        if arm.kernel is not None and not isinstance(arm.kernel, str):
            raise BadInput(
                f"arm {name}: only a trial in guests can build a kernel",
                hint="add  [guest], or install the kernel and name its release",
            )
        left = msgspec.structs.replace(arm, environment={}, parameters={}, placebo=False, **_PARTS)
        if not left.changes_nothing:
            raise Contradiction(
                f"arm {name}: a trial that boots this machine cannot have commands, services, builds or sched_ext",
                hint="use only boot, kernel, set, profile, environment and parameters in this arm",
            )
        if entry_of(name) in {REHEARSAL, TRIAL}:
            raise BadInput(f"arm {name}: ktrial itself has a boot entry {entry_of(name)}", hint="rename the arm")
        # The firmware's file system does not distinguish upper and lower case.
        other = entries.setdefault(entry_of(name).lower(), name)
        if other != name:
            raise BadInput(f"arms {other} and {name} would have the same boot entry", hint=f"rename arm {name}")


def with_boot_signs(trial: TrialFile, releases: Mapping[str, str | None]) -> TrialFile:
    """Return the trial with a boot for each visit, the facts that identify each boot, and the boot time as an outcome.

    `releases` maps arms that name a kernel to its release. A placebo boots the control's entry.
    """
    arms = {
        name: arm if arm.placebo else _recognised(name, arm, releases.get(name)) for name, arm in trial.arms.items()
    }
    is_named = _TOTAL in {trial.primary, *trial.secondary, *trial.guards}
    return msgspec.structs.replace(
        trial,
        arms=arms,
        secondary=trial.secondary if is_named else (*trial.secondary, _TOTAL),
        design=msgspec.structs.replace(trial.design, replicate="boot"),
    )


def _recognised(name: str, arm: ArmFile, release: str | None) -> ArmFile:
    words = [f"{MARK}={entry_of(name)}"]
    for change in parse_changes(arm.boot) if arm.boot else ():
        words += _signs(change)
    expect: dict[str, str] = {_LINE: " ".join(words)}
    if release is not None:
        expect["kernel.release"] = release
    return msgspec.structs.replace(arm, manual=f"boot the entry {entry_of(name)}", expect=expect)


def _signs(change: WordChange) -> tuple[str, ...]:
    """Return the words that the command line contains after a change. A word to remove is removed with any value."""
    text = change.word.text
    if not change.removes:
        return (text,)
    return (f"!{text}",) if change.word.value is not None else (f"!{text}", f"!{text}=*")
