# SPDX-License-Identifier: Apache-2.0
"""Turns a ladder into a trial.

Each tier, stacked on the tiers below, is an arm; tiers that this kernel cannot run are skipped. With boots of guests or
of this machine, a tier may also have its own kernel and kernel arguments. Only guests can boot a kernel that ktrial
builds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ktrial.kernels.config.fragments import load_fragments
from ktrial.kernels.request import with_extended
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.ports import Machine
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import CONTROL, ArmFile, TrialFile
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.profile import Tier
from ktrial.tuning.plans.model import Plan, Refusal
from ktrial.tuning.plans.resolve import make_plan

_HINT = "run `ktrial profiles` to list ladders; docs/ladder.md shows how to write one"
_SHOWN_REASONS = 3


class Ladder(NamedTuple):
    """A ladder as it can run here. `control` is the lowest tier, or the unchanged machine or guest.

    `not_run` says why other tiers cannot run.
    """

    name: str
    #: All tiers, whether they run or not.
    tiers: tuple[str, ...]
    control: str
    baseline: Literal["found", "stock", "distro"]
    arms: Mapping[str, ArmFile]
    #: Why each of the other tiers does not run: it needs a boot or a build, or changes nothing here.
    not_run: Mapping[str, str]


class BuiltTiers(NamedTuple):
    """How ktrial builds the kernels of tiers. `patches` contains the user's patch files by tier.

    `exact` is set for exact guests, which cannot measure tiers that change the compiler or its flags.
    """

    patches: Mapping[str, tuple[str, ...]]
    exact: bool


def ladder_of(
    name: str, catalog: Catalog, kernels: Mapping[str, str] | None = None, built: BuiltTiers | None = None
) -> Ladder:
    """Return the tiers of a profile, each stacked on the tiers before it.

    `kernels` maps tiers to kernels, and is None if visits do not boot. `built` says how ktrial builds kernels; None if
    it builds none.
    """
    if name not in catalog.profiles:
        ladders = [profile.name for profile in catalog.profiles.values() if profile.tier]
        raise UnknownName("ladder", name, ladders, hint=_HINT)
    profile = catalog.profiles[name]
    if not profile.tier:
        named = ", ".join(one.name for one in catalog.profiles.values() if one.tier)
        raise BadInput(f"{name} has no tiers", hint=f"run `ktrial try {name}`, or name a ladder: {named}")
    first = profile.tier[0]
    generated = catalog.profiles[first.profile].generated if first.profile is not None else None
    control = first.name if generated is not None else CONTROL
    known = [control, *(tier.name for tier in profile.tier if tier.name != control)]
    for given in (*(kernels or {}), *(built.patches if built is not None else ())):
        if given not in known:
            raise UnknownName("tier", given, known, hint=f"run `ktrial profiles {name}` to see its tiers")
    tiers = profile.tier[1:] if generated is not None else profile.tier
    not_run = {tier.name: why for tier in tiers if (why := _why_not(tier, kernels, built)) is not None}
    run = [tier for tier in tiers if tier.name not in not_run]
    arms = {control: ArmFile()} | dict(_stacked(run, kernels or {}, built))
    if len(arms) == 1:
        reasons = "; ".join(f"{tier}: {why}" for tier, why in not_run.items())
        hint = "add --boots for kernel arguments, --kernel TIER=KERNEL for a kernel, or --tree to build one for guests"
        raise BadInput(f"no tier of {name} can run ({reasons})", hint=hint)
    return Ladder(name, tuple(tier.name for tier in profile.tier), control, generated or "found", arms, not_run)


def _why_not(tier: Tier, kernels: Mapping[str, str] | None, built: BuiltTiers | None) -> str | None:
    """Return why a tier cannot run; None if it can."""
    if built is not None and tier.fragments:
        return _why_not_built(tier, built)
    if kernels is None or (tier.build is not None and tier.name not in kernels):
        return tier.lacking
    return None


def _why_not_built(tier: Tier, built: BuiltTiers) -> str | None:
    known = load_fragments()
    fragments = with_extended([one for one in tier.fragments if one in known], known)
    asked = [f"{what} {value}" for one in fragments for what, value in one.build.asked.items()]
    if built.exact and asked:
        listed = ", ".join(dict.fromkeys(asked))
        return f"it asks for {listed}, and an exact guest cannot show the effect; use --mode emulated or kvm"
    patches = [f"{symbol} needs {patch}" for one in fragments for symbol, patch in one.patches.items()]
    if patches and tier.name not in built.patches:
        return f"{'; '.join(patches)}; add --patch {tier.name}=FILE"
    return None


def _stacked(
    tiers: Sequence[Tier], kernels: Mapping[str, str], built: BuiltTiers | None
) -> Iterator[tuple[str, ArmFile]]:
    profiles: list[str] = []
    words: list[str] = []
    change = KernelChange()
    kernel: str | None = None
    for tier in tiers:
        profiles += [tier.profile] if tier.profile is not None else []
        words += tier.boot
        kernel = kernels.get(tier.name, kernel)
        if built is not None:
            more = [one for one in tier.fragments if one not in change.fragments]
            patches = built.patches.get(tier.name, ())
            change = KernelChange(fragments=(*change.fragments, *more), patches=(*change.patches, *patches))
        own = change if change != KernelChange() else kernel
        yield tier.name, ArmFile(profile=tuple(profiles), boot=tuple(words), kernel=own)


def with_own_kernels(ladder: Ladder, keys: Mapping[str, str]) -> Ladder:
    """Return the ladder in which adjacent tiers share a kernel if they have the same key in `keys`."""
    arms: dict[str, ArmFile] = {}
    below = ladder.control
    for name, arm in ladder.arms.items():
        same = keys.get(name) == keys.get(below) and name != below
        arms[name] = msgspec.structs.replace(arm, kernel=arms[below].kernel) if same else arm
        below = name
    return ladder._replace(arms=arms)


def surely_run(ladder: Ladder) -> Ladder:
    """Return the ladder without tiers that have the same kernel and kernel arguments as the tier below.

    The settings of such a tier may change nothing.
    """
    below = ladder.arms[ladder.control]
    arms = {ladder.control: below}
    for name, arm in ladder.arms.items():
        if (arm.kernel, arm.boot) != (below.kernel, below.boot):
            arms[name] = arm
        below = arm
    return ladder._replace(arms=arms)


def tier_plans(ladder: Ladder, machine: Machine, catalog: Catalog, *, allow_dangerous: bool = False) -> dict[str, Plan]:
    prefix = () if ladder.baseline == "found" else (ladder.baseline,)
    nothing = Plan(title=ladder.name, changes=(), same=(), refusals=())
    return {
        name: make_plan(machine, catalog, words, allow_dangerous=allow_dangerous, later_wins=True)[0]
        if (words := (*prefix, *arm.words))
        else nothing
        for name, arm in ladder.arms.items()
    }


def possible(ladder: Ladder, plans: Mapping[str, Plan]) -> Ladder:
    """Return the ladder without tiers that add nothing to the tier below. Raise BadInput if no tier is left."""
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
        reasons = "; ".join(f"{name}: {why}" for name, why in not_run.items())
        raise BadInput(
            f"no tier of {ladder.name} changes anything here ({reasons})",
            hint=f"run `ktrial profiles {ladder.name}` to see its tiers",
        )
    return ladder._replace(arms=arms, not_run={name: not_run[name] for name in ladder.tiers if name in not_run})


def left_out(ladder: Ladder, plans: Mapping[str, Plan]) -> dict[str, str]:
    """Return what each tier that runs cannot set, except what a lower tier could not set either."""
    skipped = {}
    before = {one.address for one in plans[ladder.control].refusals}
    for name in ladder.arms:
        refused = {one.address: one for one in plans[name].refusals}
        new = [one for address, one in refused.items() if address not in before]
        if new:
            skipped[name] = _join_refusals(new)
        before |= set(refused)
    return skipped


def _values(plan: Plan) -> tuple[object, ...]:
    return ({change.address: change.new_text for change in plan.changes}, plan.zram)


def _why(plan: Plan, before: Plan) -> str:
    known = {one.address for one in before.refusals}
    new = [one for one in plan.refusals if one.address not in known]
    return f"changes nothing here: {_join_refusals(new) if new else 'all its values are in force already'}"


def _join_refusals(refusals: list[Refusal]) -> str:
    shown = "; ".join(f"{one.address}: {one.reason}" for one in refusals[:_SHOWN_REASONS])
    more = len(refusals) - _SHOWN_REASONS
    return f"{shown}; and {more} more" if more > 0 else shown


def ladder_trial(ladder: Ladder, template: TrialFile) -> TrialFile:
    """Return the trial of all tiers in the same blocks, each compared with the tier below and with the control."""
    return msgspec.structs.replace(
        template, control=ladder.control, baseline=ladder.baseline, questions="ladder", arms=ladder.arms
    )
