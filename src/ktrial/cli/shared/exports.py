# SPDX-License-Identifier: Apache-2.0
"""What the words PROFILE, TRIAL, TRANSACTION and KNOB=VALUE name, as lasting settings with the reasons for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ktrial.cli.shared.ledger import kept_ledger, ledger_of
from ktrial.kit.errors import BadInput, NoSuchTransaction, UnknownName
from ktrial.tuning.exports.model import LastingProfile, LastingSetting
from ktrial.tuning.exports.resolve import Omission, WantedSetting, lasting_settings
from ktrial.tuning.knobs.address import is_assignment, parse_assignment
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.profile import Setting, flatten

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.machine.transactions import JournaledStep
    from ktrial.studies.ledger.model import LedgerEntry
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.catalog.model import Catalog

_UNTESTED = "not tested on this machine"


class Lasting(NamedTuple):
    """Settings to make last, and what is left out of them."""

    profile: LastingProfile
    left_out: tuple[Omission, ...]


def lasting_profile(app: App, words: Sequence[str], name: str | None) -> Lasting:
    """Return what the words name, computed for this machine where it depends on one."""
    from ktrial.studies.ledger.text import verdict_line
    from ktrial.tuning.knobs.observe import observe
    from ktrial.tuning.plans.model import Context

    if not words:
        raise BadInput(
            "nothing to export", hint="name a profile, a trial, a transaction, or settings such as vm.swappiness=10"
        )
    catalog, names = app.catalog_for(words)
    wanted: list[WantedSetting] = []
    left: list[Omission] = []
    for word in names:
        wanted += _settings_of(app, catalog, word, left)
    machine = app.user_session
    facts = machine.facts()
    knobs = {knob.id: knob for one in wanted if (knob := find_knob(one.setting.knob, catalog.knobs)).files}
    context = Context(catalog.knobs, catalog.kinds, facts, observe(machine, knobs.values()))
    ledger = kept_ledger(app)
    entries = ledger.entries if ledger is not None else ()

    def tested(setting: LastingSetting) -> tuple[str, ...]:
        entry = _entry_of(setting, entries)
        return (_UNTESTED,) if entry is None else (verdict_line(entry),)

    settings, more = lasting_settings(wanted, context, tested)
    if not settings:
        raise BadInput(
            f"nothing to export: {'; '.join(f'{one.what}: {one.reason}' for one in (*left, *more)) or 'no settings'}"
        )
    profile = LastingProfile(name=name or _slug(names), title=" ".join(names), settings=settings)
    return Lasting(profile, (*left, *more))


def _entry_of(setting: LastingSetting, entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """Return the newest judged trial of this value, one of this setting alone if there is any."""
    about = [one for one in entries if one.verdict is not None and one.changes.get(setting.address) == setting.text]
    return min(about, key=lambda one: len(one.changes), default=None)


def _slug(names: Sequence[str]) -> str:
    """Return a name for files made from the words."""
    first = names[0].partition("=")[0] if len(names) == 1 else "-".join(word.partition("=")[0] for word in names[:3])
    return re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-")[:60].rstrip("-") or "settings"


def _settings_of(app: App, catalog: Catalog, word: str, left: list[Omission]) -> list[WantedSetting]:
    if is_assignment(word):
        address, value = parse_assignment(word)
        find_knob(address.knob, catalog.knobs)
        return [WantedSetting(Setting(knob=str(address), value=value))]
    if word in catalog.profiles:
        return _of_profile(app, catalog, word)
    if word.isdecimal():
        return _of_transaction(app, catalog, int(word), left)
    if word in catalog.knobs:
        raise BadInput(
            f"{word} is a knob and needs a value",
            hint=f"write {word}=VALUE; `ktrial explain {word}` lists its values",
        )
    return _of_trial(app, catalog, word, left)


def _of_profile(app: App, catalog: Catalog, name: str) -> list[WantedSetting]:
    settings = flatten(name, catalog.profiles)
    generated = catalog.profiles[name].generated
    if generated is not None:
        from ktrial.tuning.origin.why import vendor_settings
        from ktrial.tuning.plans.resolve import stock_settings

        machine = app.user_session
        if generated == "stock":
            settings = stock_settings(machine, catalog, machine.facts())
        else:
            settings = vendor_settings(machine, catalog)
    latest = {f"{one.knob} {one.when}": one for one in settings}  # later settings win
    return [
        WantedSetting(one, (f"profile {name}: {one.why}" if one.why else f"profile {name}",)) for one in latest.values()
    ]


def _of_transaction(app: App, catalog: Catalog, number: int, left: list[Omission]) -> list[WantedSetting]:
    from ktrial.machine.transactions import status

    told = status(app.root_session(f"reading transaction {number}"))
    found = next((one for one in told.transactions if one.transaction == number), None)
    if found is None:
        raise NoSuchTransaction(
            "no-such-transaction", f"no such transaction: {number}", hint="`ktrial status` lists the active ones"
        )
    wanted = []
    for step in found.steps:
        setting = _of_step(step, catalog)
        if setting is None:
            left.append(Omission(step.knob or step.path, "it is not a value of a knob"))
        else:
            wanted.append(WantedSetting(setting, (f"transaction {number} ({found.state}): {found.title or ''}",)))
    return wanted


def _of_step(step: JournaledStep, catalog: Catalog) -> Setting | None:
    """Return the setting that a step of a transaction wrote."""
    from ktrial.tuning.knobs.knob import instance_of

    if not isinstance(step.new, str) or not step.new.strip():
        return None
    address = step.knob
    if address is None or address.partition("@")[0] not in catalog.knobs:
        labels = ((knob, instance_of(place, step.path)) for knob in catalog.knobs.values() for place in knob.files)
        knob, label = next(((knob, label) for knob, label in labels if label is not None), (None, None))
        if knob is None:
            return None
        address = f"{knob.id}@{label}" if label else knob.id
    return Setting(knob=address, value=step.new.strip())


def _of_trial(app: App, catalog: Catalog, word: str, left: list[Omission]) -> list[WantedSetting]:
    from ktrial.studies.ledger.text import verdict_line

    name, _, arm = word.partition("/")
    trials = [one.trial for one in app.trials.all()]
    if not any(one.startswith(name) for one in trials):
        known = (*catalog.profiles, *trials)
        raise UnknownName("profile or trial", name, known, hint="`ktrial profiles` and `ktrial trial list` list them")
    stored = app.trials.find(name)
    arm = arm or _only_arm(stored)
    if arm not in stored.arms or arm == stored.file.control:
        arms = [one for one in stored.arms if one != stored.file.control]
        raise UnknownName(f"arm of {stored.trial}", arm, arms, hint=f"arms: {', '.join(arms)}")
    entries = [one for one in ledger_of(app).entries if (one.trial, one.arm) == (stored.trial, arm)]
    reasons = tuple(verdict_line(entry) for entry in entries) or (f"{stored.trial}/{arm}: no verdict yet",)
    changes: dict[str, object] = dict(stored.arms[arm].changes)
    for text in stored.file.arms[arm].boot:
        knob, equals, value = text.partition("=")
        if f"boot:{knob}" in catalog.knobs:
            changes[f"boot:{knob}"] = value if equals else "1"
        else:
            left.append(Omission(text, "no knob of the catalog has this kernel argument"))
    left += _without_knobs(stored, arm)
    return [
        WantedSetting(Setting(knob=address, value=value), reasons, judged=True) for address, value in changes.items()
    ]


def _only_arm(stored: StoredTrial) -> str:
    arms = [name for name, arm in stored.file.arms.items() if name != stored.file.control and not arm.placebo]
    if len(arms) != 1:
        shown = ", ".join(f"{stored.trial}/{one}" for one in arms)
        raise BadInput(f"{stored.trial} has {len(arms)} arms: name one", hint=f"arms: {shown}")
    return arms[0]


def _without_knobs(stored: StoredTrial, arm: str) -> list[Omission]:
    """Return the parts of an arm that are no settings, and its settings that were in force before."""
    file = stored.file.arms[arm]
    parts = ("environment", "parameters", "commands", "service", "sched_ext", "build", "manual", "kernel")
    found = [Omission(f"{stored.trial}/{arm}: {part}", "it is not a setting") for part in parts if getattr(file, part)]
    same = stored.arms[arm].same
    if same:
        found.append(Omission(", ".join(same), "it was in force before the trial, so the trial says nothing about it"))
    return found
