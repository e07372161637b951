# SPDX-License-Identifier: Apache-2.0
"""Where kept settings come from, as the journal records it: `docs/formats.md` describes `sources` of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ktrial.machine.transactions import Status
from ktrial.tuning.knobs.profile import Profile, Setting, flatten
from ktrial.tuning.lasting.kept_files import kept_transactions
from ktrial.tuning.plans.model import Change, Plan, Refusal, Request

_PROFILE = "profile "


class KeptSources(NamedTuple):
    """The settings of each kept profile as they were when it was kept, and the profile of each kept setting."""

    profiles: Mapping[str, Sequence[Mapping[str, Any]]]
    origins: Mapping[str, str | None]


def definition(name: str, profiles: Mapping[str, Profile]) -> list[dict[str, Any]]:
    """Return the settings of a profile without their reasons."""
    return [_setting(one) for one in flatten(name, profiles)]


def _setting(one: Setting) -> dict[str, Any]:
    found = {"knob": one.knob, "value": one.value}
    return found if one.when is None else {**found, "when": one.when}


def sources_of(requests: Iterable[Request], plan: Plan, profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """Return the `sources` of a plan that keeps these requests.

    Generated profiles are left out, because ktrial computes them on each machine: their settings may change without an
    update.
    """
    names = [one.origin.removeprefix(_PROFILE) for one in requests if one.origin.startswith(_PROFILE)]
    named = {name for name in names if name in profiles and profiles[name].generated is None}
    outcomes: tuple[Change | Refusal, ...] = (*plan.refusals, *plan.changes, *plan.same)
    origins = {one.address: _profile_of(one.origin, named) for one in outcomes}
    if plan.zram is not None:
        device = plan.zram.device or "zram0"
        for knob in ("disksize", "comp_algorithm"):
            origins[f"zram:{knob}@{device}"] = _profile_of(plan.zram.origin, named)
    return {"profiles": {name: definition(name, profiles) for name in sorted(named)}, "origins": origins}


def _profile_of(origin: str, named: Iterable[str]) -> str | None:
    name = origin.removeprefix(_PROFILE)
    return name if origin.startswith(_PROFILE) and name in named else None


def kept_sources(status: Status) -> KeptSources:
    """Return the sources that the transactions in force recorded; later transactions override earlier ones."""
    profiles: dict[str, Any] = {}
    origins: dict[str, str | None] = {}
    for transaction in reversed(kept_transactions(status)):
        recorded = transaction.sources or {}
        profiles.update(recorded.get("profiles", {}))
        origins.update(recorded.get("origins", {}))
    return KeptSources(profiles, origins)
