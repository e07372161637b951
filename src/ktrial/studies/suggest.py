# SPDX-License-Identifier: Apache-2.0
"""Finds candidates for a goal on this machine: settings that the goal or its profiles would change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktrial.kit.errors import Refused
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.studies.goals import Candidate, Goal
from ktrial.studies.ledger.model import LedgerEntry
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.knob import INSTANCE_FACTS
from ktrial.tuning.knobs.profile import Profile, Setting
from ktrial.tuning.knobs.relevance import inert_here
from ktrial.tuning.plans.model import Change
from ktrial.tuning.plans.resolve import make_plan

_RISKS = ("safe", "caution", "dangerous")
_STATUSES = ("supported", "claimed", "none", "never took effect", "superseded", "refuted")


class Suggestions(NamedTuple):
    """The candidates, and why other settings were skipped.

    `not_here` has the reason for each profile that cannot apply here, `inert` for each knob without effect here.
    """

    candidates: tuple[Candidate, ...]
    not_here: Mapping[str, str]
    inert: Mapping[str, str]


def candidates_of(
    goals: Iterable[Goal], machine: Machine, catalog: Catalog, *, allow_dangerous: bool = False
) -> Suggestions:
    """Return the settings worth a trial. The safest and best supported come first."""
    found: dict[tuple[str, ...], Candidate] = {}
    not_here: dict[str, str] = {}
    inert: dict[str, str] = {}
    for goal in goals:
        for source, changes, facts in _proposals(goal, machine, catalog, not_here, allow_dangerous):
            for knob, together in _by_knob(changes).items():
                measure = goal.measure_of(knob)
                if measure is None:
                    continue
                if alone := inert_here(catalog.knobs[knob], facts, catalog.kinds):
                    inert[knob] = alone
                    continue
                made = _candidate(goal, source, together, catalog)
                key = (goal.name, *made.words)
                found[key] = _join_candidates(found[key], made) if key in found else made
    return Suggestions(tuple(sorted(found.values(), key=rank)), not_here, inert)


def _proposals(
    goal: Goal, machine: Machine, catalog: Catalog, not_here: dict[str, str], allow_dangerous: bool
) -> Iterable[tuple[str, Sequence[Change], FactBook]]:
    for name in goal.profiles:
        try:
            plan, facts = make_plan(machine, catalog, (name,), allow_dangerous=allow_dangerous)
            yield f"profile {name}", _of_real_devices(plan.changes, facts, catalog), facts
        except Refused as error:
            not_here[name] = error.message
    if goal.candidate:
        settings = tuple(Setting(knob=one.knob, value=one.value, why=one.why) for one in goal.candidate)
        own = Profile(name=f"goal {goal.name}", summary=goal.what, setting=settings)
        larger = msgspec.structs.replace(catalog, profiles={**catalog.profiles, own.name: own})
        plan, facts = make_plan(machine, larger, (own.name,), allow_dangerous=allow_dangerous)
        yield own.name, _of_real_devices(plan.changes, facts, catalog), facts


def _of_real_devices(changes: Iterable[Change], facts: FactBook, catalog: Catalog) -> list[Change]:
    """Return the changes without virtual devices (loop, zram), which perform like the device below them."""
    found = []
    for change in changes:
        knob = catalog.knobs[change.knob]
        source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders else None
        label = change.address.partition("@")[2].partition("/")[0]
        near = facts.with_device(catalog.kinds, source, label) if source else facts
        if source is None or near.value("device.virtual") is not True:
            found.append(change)
    return found


def _by_knob(changes: Iterable[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        if not change.already:
            found.setdefault(change.knob, []).append(change)
    return found


def _candidate(goal: Goal, source: str, together: Sequence[Change], catalog: Catalog) -> Candidate:
    knob = catalog.knobs[together[0].knob]
    measure = goal.measure_of(knob.id)
    assert measure is not None, "only what can be measured is a candidate"
    return Candidate(
        knob=knob.id,
        settings={one.address: one.new_text for one in together},
        now={one.address: one.old_text for one in together},
        measure=measure,
        goal=goal.name,
        sources=(source,),
        why=tuple(dict.fromkeys(one.why for one in together if one.why)),
        price=knob.price,
        risk=knob.risk,
        evidence=knob.evidence,
    )


def _join_candidates(one: Candidate, other: Candidate) -> Candidate:
    return msgspec.structs.replace(
        one,
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
        why=tuple(dict.fromkeys((*one.why, *other.why))),
    )


def rank(one: Candidate) -> tuple[int, int, int, str]:
    """Return the sort key: lowest risk first, then best evidence, then most sources, then the name of the knob."""
    best = min((_STATUSES.index(claim.status) for claim in one.evidence), default=_STATUSES.index("none"))
    return (_RISKS.index(one.risk), best, -len(one.sources), one.knob)


def tried_here(one: Candidate, entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """Return the first ledger entry of exactly this setting by this measure; None if there is none."""
    return next((entry for entry in entries if is_of(one, entry)), None)


def is_of(one: Candidate, entry: LedgerEntry) -> bool:
    """Return whether `entry` tried exactly the settings of the candidate, with its suite and outcome."""
    return (
        entry.changes == one.settings
        and not entry.environment
        and entry.workload.partition(" ")[0] == one.measure.suite
        and f".{entry.outcome}".endswith(f".{one.measure.primary}")
    )
