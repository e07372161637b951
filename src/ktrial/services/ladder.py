# SPDX-License-Identifier: Apache-2.0
"""A ladder as a trial: its tiers stacked, each an arm, those that this kernel cannot take left out with the reason.

In guests a tier may also be a kernel of its own, and words for its command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ktrial.catalog.model import Catalog
from ktrial.domain.errors import BadInput, UnknownName
from ktrial.domain.plan import Plan, Refusal
from ktrial.domain.profile import Profile, Tier
from ktrial.domain.trial_file import CONTROL, ArmFile, TrialFile
from ktrial.services.ports import Machine
from ktrial.services.tune import make_plan

_HINT = "`ktrial profiles` lists all; docs/ladder.md shows how one is written"
_SHOWN_REASONS = 3


class Ladder(NamedTuple):
    """What a ladder comes to: `control` is the lowest tier, or the machine (or the guest) as it is found."""

    name: str
    #: All of its tiers, run or not.
    tiers: tuple[str, ...]
    control: str
    baseline: Literal["found", "stock", "distro"]
    arms: Mapping[str, ArmFile]
    #: Tier -> why it is not run: it needs a boot or a build, or changes nothing here.
    not_run: Mapping[str, str]


def ladder_of(name: str, catalog: Catalog, kernels: Mapping[str, str] | None = None) -> Ladder:
    """The tiers of a profile, each stacked on those before it; in guests `kernels` are those that tiers bring."""
    if name not in catalog.profiles:
        ladders = [profile.name for profile in catalog.profiles.values() if profile.tier]
        raise UnknownName("ladder", name, ladders, hint=_HINT)
    profile = catalog.profiles[name]
    if not profile.tier:
        named = ", ".join(one.name for one in catalog.profiles.values() if one.tier)
        raise BadInput(f"{name} has no tiers", hint=f"`ktrial try {name}` tries it as a whole; ladders: {named}")
    first = profile.tier[0]
    generated = catalog.profiles[first.profile].generated if first.profile is not None else None
    control = first.name if generated is not None else CONTROL
    _check_kernels(profile, control, kernels or {})
    tiers = profile.tier[1:] if generated is not None else profile.tier
    not_run = {tier.name: why for tier in tiers if (why := _why_not(tier, kernels)) is not None}
    arms = {control: ArmFile()} | dict(_stacked([tier for tier in tiers if tier.name not in not_run], kernels or {}))
    if len(arms) == 1:
        hint = "--kernel TIER=KERNEL names the kernel of one, for a guest" if kernels else "all of them must be built"
        raise BadInput(f"{name} has no tier that a running kernel takes", hint=hint)
    return Ladder(name, tuple(tier.name for tier in profile.tier), control, generated or "found", arms, not_run)


def _check_kernels(profile: Profile, control: str, kernels: Mapping[str, str]) -> None:
    known = [control, *(tier.name for tier in profile.tier if tier.name != control)]
    for name in kernels:
        if name not in known:
            raise UnknownName("tier", name, known, hint=f"`ktrial profiles {profile.name}` shows its tiers")


def _why_not(tier: Tier, kernels: Mapping[str, str] | None) -> str | None:
    """What keeps a tier from being run; in guests only a kernel that nobody named."""
    if kernels is None or (tier.build is not None and tier.name not in kernels):
        return tier.lacking
    return None


def _stacked(tiers: Sequence[Tier], kernels: Mapping[str, str]) -> Iterator[tuple[str, ArmFile]]:
    profiles: list[str] = []
    words: list[str] = []
    kernel: str | None = None
    for tier in tiers:
        profiles += [tier.profile] if tier.profile is not None else []
        words += tier.boot
        kernel = kernels.get(tier.name, kernel)
        yield tier.name, ArmFile(profile=tuple(profiles), boot=tuple(words), kernel=kernel)


def tier_plans(ladder: Ladder, machine: Machine, catalog: Catalog, *, allow_dangerous: bool = False) -> dict[str, Plan]:
    """What each tier changes here, and what of it cannot be set."""
    prefix = () if ladder.baseline == "found" else (ladder.baseline,)
    nothing = Plan(title=ladder.name, changes=(), same=(), refusals=())
    return {
        name: make_plan(machine, catalog, words, allow_dangerous=allow_dangerous, later_wins=True)[0]
        if (words := (*prefix, *arm.words))
        else nothing
        for name, arm in ladder.arms.items()
    }


def possible(ladder: Ladder, plans: Mapping[str, Plan]) -> Ladder:
    """The ladder without tiers that add nothing here to the one before."""
    below = ladder.arms[ladder.control]
    arms = {ladder.control: below}
    not_run = dict(ladder.not_run)
    before = plans[ladder.control]
    for name, arm in ladder.arms.items():
        if name == ladder.control:
            continue
        if (arm.kernel, arm.boot, _values(plans[name])) == (below.kernel, below.boot, _values(before)):
            not_run[name] = _why(plans[name], before)
            continue
        arms[name] = below = arm
        before = plans[name]
    if len(arms) == 1:
        told = "; ".join(f"{name}: {why}" for name, why in not_run.items())
        raise BadInput(f"no tier of {ladder.name} changes anything on this machine as it runs", hint=told)
    return ladder._replace(arms=arms, not_run={name: not_run[name] for name in ladder.tiers if name in not_run})


def left_out(ladder: Ladder, plans: Mapping[str, Plan]) -> dict[str, str]:
    """Tier -> what of it is not set, of tiers that are run and add such a refusal to the control's."""
    told = {}
    before = {one.address for one in plans[ladder.control].refusals}
    for name in ladder.arms:
        refused = {one.address: one for one in plans[name].refusals}
        new = [one for address, one in refused.items() if address not in before]
        if new:
            told[name] = _listed(new)
        before |= set(refused)
    return told


def _values(plan: Plan) -> tuple[object, ...]:
    return ({change.address: change.new_text for change in plan.changes}, plan.zram)


def _why(plan: Plan, before: Plan) -> str:
    known = {one.address for one in before.refusals}
    new = [one for one in plan.refusals if one.address not in known]
    return f"changes nothing here: {_listed(new)}" if new else "changes nothing here: it is in force already"


def _listed(refusals: list[Refusal]) -> str:
    shown = "; ".join(f"{one.address}: {one.reason}" for one in refusals[:_SHOWN_REASONS])
    more = len(refusals) - _SHOWN_REASONS
    return f"{shown}; and {more} more" if more > 0 else shown


def ladder_trial(ladder: Ladder, template: TrialFile) -> TrialFile:
    """The trial: every tier against the one before it and against the control, in the same blocks."""
    return msgspec.structs.replace(
        template, control=ladder.control, baseline=ladder.baseline, questions="ladder", arms=ladder.arms
    )
