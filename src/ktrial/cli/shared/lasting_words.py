# SPDX-License-Identifier: Apache-2.0
"""Finds the settings that the words of `keep` and `export` name, and what was proven about each setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ktrial.cli.shared.ledger import ledger_of
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.transactions import JournaledStep, Status, find_transaction
from ktrial.trial.arms.plan_arms import SCHED_EXT
from ktrial.tuning.exports.model import Omission
from ktrial.tuning.knobs.address import is_assignment
from ktrial.tuning.knobs.find import refuse_knob
from ktrial.tuning.knobs.knob import instance_of
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.lasting.boot_words import REMOVAL
from ktrial.tuning.plans.model import Request
from ktrial.tuning.plans.resolve import requests_on

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.facts import FactBook
    from ktrial.studies.ledger.model import LedgerEntry
    from ktrial.trial.protocol.file import SchedExtFile
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.catalog.model import Catalog


class NamedSettings(NamedTuple):
    """The settings that one word names; `entry` is the verdict if the word names a trial's arm."""

    request: Request
    left_out: tuple[Omission, ...] = ()
    entry: LedgerEntry | None = None
    scheduler: SchedExtFile | None = None

    @property
    def not_exported(self) -> tuple[Omission, ...]:
        """The skipped settings, and the scheduler, which no target of `ktrial export` can start."""
        if self.scheduler is None:
            return self.left_out
        arm = self.request.origin.removeprefix("trial ")
        reason, hint = (
            "no target starts a sched_ext scheduler",
            f"start it at each boot of this machine with `ktrial keep {arm}`",
        )
        return (*self.left_out, Omission(f"{arm}: sched_ext", reason, self.scheduler.text, hint))


class WordReader(NamedTuple):
    """Finds the settings that a word names: the catalog, facts, journal and trials decide what the word means."""

    app: App
    catalog: Catalog
    machine: AgentSession
    facts: FactBook
    status: Callable[[], Status]

    def settings_of(self, word: str) -> NamedSettings:
        if word.startswith(REMOVAL):
            why = f"cannot export {word}: no target removes kernel arguments"
            raise BadInput(
                why, hint=f"remove the argument with `ktrial keep {word}`, on a machine whose GRUB reads drop-in files"
            )
        if word.isdecimal():
            return self._of_transaction(int(word))
        if is_assignment(word) or word in self.catalog.profiles or word in self.catalog.knobs:
            (request,) = requests_on(self.machine, self.catalog, [word], self.facts)
            return NamedSettings(request)
        return self._of_trial(word)

    def _of_transaction(self, number: int) -> NamedSettings:
        found = find_transaction(self.status(), number)
        settings, left = [], []
        for step in found.steps:
            setting = self._of_step(step)
            if setting is None:
                left.append(Omission(step.knob or step.path, "it is not a value of a knob"))
            else:
                settings.append(setting)
        if not settings:
            raise BadInput(f"transaction {number} changed no knob", hint="run `ktrial status` to list transactions")
        return NamedSettings(Request(f"transaction {number}", tuple(settings)), tuple(left))

    def _of_step(self, step: JournaledStep) -> Setting | None:
        """Return the setting that a step of a transaction wrote; None if it wrote no value of a knob."""
        if not isinstance(step.new, str) or not step.new.strip():
            return None
        address = step.knob
        if address is None or address.partition("@")[0] not in self.catalog.knobs:
            knobs = self.catalog.knobs.values()
            labels = ((knob, instance_of(place, step.path)) for knob in knobs for place in knob.files)
            knob, label = next(((knob, label) for knob, label in labels if label is not None), (None, None))
            if knob is None:
                return None
            address = f"{knob.id}@{label}" if label else knob.id
        return Setting(knob=address, value=step.new.strip())

    def _of_trial(self, word: str) -> NamedSettings:
        name, _, arm = word.partition("/")
        trials = [one.trial for one in self.app.trials.all()]
        if not any(one.startswith(name) for one in trials):
            refuse_knob(word, self.catalog.knobs)
            known = (*self.catalog.profiles, *trials)
            hint = "run `ktrial profiles` or `ktrial trial list` to list the names"
            raise UnknownName("profile or trial", name, known, hint=hint)
        stored = self.app.trials.find(name)
        entries = {one.arm: one for one in ledger_of(self.app).entries if one.trial == stored.trial}
        arm = arm or _meant_arm(stored, entries)
        if arm not in stored.arms or arm == stored.file.control:
            arms = [one for one in stored.arms if one != stored.file.control]
            raise UnknownName(f"arm of {stored.trial}", arm, arms, hint=f"use one of: {', '.join(arms)}")
        scheduler = stored.file.arms[arm].sched_ext
        left = [one for one in other_parts(stored, arm) if scheduler is None or not one.address.endswith(": sched_ext")]
        changes: dict[str, object] = dict(stored.arms[arm].changes)
        changes.pop(SCHED_EXT, None)
        for text in stored.file.arms[arm].boot:
            knob, equals, value = text.partition("=")
            if f"boot:{knob}" in self.catalog.knobs:
                changes[f"boot:{knob}"] = value if equals else "1"
            else:
                left.append(Omission(text, "no knob of the catalog has this kernel argument"))
        for address in [one for one in changes if one.partition("@")[0] not in self.catalog.knobs]:
            left.append(Omission(address, "the catalog no longer has this knob", value=str(changes.pop(address))))
        same = stored.arms[arm].same
        if same:
            why = "it was in force before the trial, so the trial says nothing about it"
            left.append(Omission(", ".join(same), why))
        settings = tuple(Setting(knob=address, value=value) for address, value in changes.items())
        return NamedSettings(Request(f"trial {stored.trial}/{arm}", settings), tuple(left), entries.get(arm), scheduler)


def _meant_arm(stored: StoredTrial, entries: Mapping[str, LedgerEntry]) -> str:
    """Return the trial's only arm, or the only arm that was better. Raise BadInput unless there is one."""
    arms = [name for name, arm in stored.file.arms.items() if name != stored.file.control and not arm.placebo]
    better = [name for name in arms if name in entries and entries[name].verdict == "better"]
    meant = arms if len(arms) == 1 else better
    if not arms:
        raise BadInput(f"{stored.trial} has no arms except placebos", hint="name a trial whose arms change settings")
    if len(meant) != 1:
        shown = ", ".join(f"{stored.trial}/{one}" for one in better or arms)
        kind = "better arms" if better else "arms, and none is better"
        raise BadInput(
            f"cannot choose an arm: {stored.trial} has {len(better or arms)} {kind}", hint=f"name one of: {shown}"
        )
    return meant[0]


def other_parts(stored: StoredTrial, arm: str) -> list[Omission]:
    """Return the parts of an arm that are not settings."""
    parts = ("environment", "parameters", "commands", "service", "sched_ext", "build", "manual", "kernel")
    file = stored.file.arms[arm]
    return [Omission(f"{stored.trial}/{arm}: {part}", "it is not a setting") for part in parts if getattr(file, part)]


def proofs_of(app: App, machine: str) -> dict[tuple[str, str], LedgerEntry]:
    """Return, by address and value, the newest verdict on this machine about that setting alone."""
    stored = {one.trial: one for one in app.trials.all()}
    found: dict[tuple[str, str], LedgerEntry] = {}
    for entry in reversed(ledger_of(app).entries):
        if entry.machine == machine and entry.verdict is not None and _is_alone(entry, stored):
            (setting,) = entry.changes.items()
            found[setting] = entry
    return found


def _is_alone(entry: LedgerEntry, stored: Mapping[str, StoredTrial]) -> bool:
    if len(entry.changes) != 1 or entry.environment or entry.placebo or entry.manual is not None:
        return False
    arm = stored[entry.trial].file.arms[entry.arm]
    return not arm.boot and not other_parts(stored[entry.trial], entry.arm)


def sorted_words(words: Sequence[str]) -> list[str]:
    """Return the words with single settings last, so that these override settings of a trial or profile."""
    return sorted(words, key=is_assignment)
