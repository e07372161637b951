# SPDX-License-Identifier: Apache-2.0
"""Turn the words of `ktrial export` into lasting settings with the reasons for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ktrial.cli.shared.lasting_words import NamedSettings, WordReader, proofs_of
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import machine_of
from ktrial.machine.transactions import status
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.tuning.exports.model import UNTESTED, LastingProfile, LastingSetting, Omission
from ktrial.tuning.exports.resolve import WantedSetting, lasting_settings
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.plans.model import Context

if TYPE_CHECKING:
    from ktrial.cli.app import App


class Lasting(NamedTuple):
    """Settings to make last, and the skipped ones."""

    profile: LastingProfile
    left_out: tuple[Omission, ...]


def lasting_profile(app: App, words: Sequence[str], name: str | None) -> Lasting:
    """Return the settings that the words name, computed for this machine if they depend on it."""
    if not words:
        raise BadInput(
            "nothing to export", hint="name a profile, a trial, a transaction, or settings such as vm.swappiness=10"
        )
    catalog, names = app.catalog_for(words)
    machine = app.user_session
    facts = machine.facts()
    reader = WordReader(app, catalog, machine, facts, lambda: status(app.root_session("reading its transactions")))
    named = [reader.settings_of(word) for word in names]
    wanted = [one for each in named for one in _wanted_settings(each)]
    left = tuple(one for each in named for one in each.left_out)
    knobs = {knob.id: knob for one in wanted if (knob := find_knob(one.setting.knob, catalog.knobs)).files}
    context = Context(catalog.knobs, catalog.kinds, facts, observe(machine, knobs.values()))
    proofs = proofs_of(app, machine_of(facts))

    def tested(setting: LastingSetting) -> tuple[str, ...]:
        entry = proofs.get((setting.address, setting.text))
        return (UNTESTED,) if entry is None else (verdict_sentence(entry),)

    settings, more = lasting_settings(wanted, context, tested)
    if not settings:
        reasons = "; ".join(f"{one.address}: {one.reason}" for one in (*left, *more))
        raise BadInput(
            f"nothing to export: {reasons or 'no settings'}",
            hint="name other settings; `ktrial plan` shows what applies here",
        )
    profile = LastingProfile(name=name or _slug(names), title=" ".join(names), settings=settings)
    return Lasting(profile, (*left, *more))


def _wanted_settings(named: NamedSettings) -> list[WantedSetting]:
    origin, entry = named.request.origin, named.entry
    is_trial = origin.startswith("trial ")
    verdict = f"{origin}: no verdict yet" if entry is None else verdict_sentence(entry)
    wanted = []
    for one in named.request.settings:
        if is_trial:
            reasons: tuple[str, ...] = (verdict,)
        elif origin.startswith("setting "):
            reasons = ()
        else:
            reasons = (f"{origin}: {one.why}" if one.why else origin,)
        wanted.append(WantedSetting(one, origin, reasons, judged=is_trial))
    return wanted


def _slug(names: Sequence[str]) -> str:
    """Return a file name derived from the words."""
    first = names[0].partition("=")[0] if len(names) == 1 else "-".join(word.partition("=")[0] for word in names[:3])
    return re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-")[:60].rstrip("-") or "settings"
