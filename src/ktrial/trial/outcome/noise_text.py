# SPDX-License-Identifier: Apache-2.0
"""Texts of noise profiles: what trials can detect with a profile, and a list of the stored profiles."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ktrial.bench.text import duration
from ktrial.judge.model.log import Protocol
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.kit.tables import clean, labelled, paragraph
from ktrial.machine.facts import FactBook
from ktrial.trial.outcome.text import sight_text
from ktrial.trial.protocol.forecast import forecast_of


class ProfileState(msgspec.Struct, frozen=True, kw_only=True):
    """A stored noise profile. `stale` states why trials no longer use it; it is empty if trials use it.

    ktrial notices a tool's new version only when a trial asks the tool for its version.
    """

    workload: str
    made_unix_ms: int
    outcomes: tuple[str, ...]
    run_s: float | None
    stale: tuple[str, ...]


def state_of(profile: NoiseProfile, facts: FactBook, now_unix_ms: int) -> ProfileState:
    now = replace(
        profile.key, kernel_release=str(facts.value("kernel.release")), governor=facts.value("cpufreq.governor")
    )
    return ProfileState(
        workload=profile.key.suite,
        made_unix_ms=profile.made_unix_ms,
        outcomes=tuple(profile.differences),
        run_s=profile.run_s,
        stale=profile.why_stale(now, now_unix_ms),
    )


def profile_text(profile: NoiseProfile, protocol: Protocol, *, width: int) -> str:
    """Return what trials of the primary outcome can detect with this profile, for each named budget."""
    from ktrial.judge.planning import BUDGETS

    lines = [f"noise of {clean(protocol.primary)}, stored as {profile.key.suite}"]
    for name, budget in BUDGETS.items():
        found = forecast_of(replace(protocol, cap=budget, profile=profile.differences), profile, 0.0)
        if found is not None:
            lines.append(labelled(f"--budget {name}", sight_text(found), width=width, label_columns=19))
    return "\n".join(lines) + "\n"


def profiles_text(found: Sequence[ProfileState], *, width: int) -> str:
    if not found:
        return "No noise profiles yet. `ktrial noise memory-pressure` measures one.\n"
    lines = []
    for one in found:
        date = time.strftime("%Y-%m-%d", time.gmtime(one.made_unix_ms / 1000))
        run = "" if one.run_s is None else f", {duration(one.run_s)} a run"
        told = f"not used any more: {'; '.join(one.stale)}" if one.stale else "in use"
        lines += [f"{date}  {clean(one.workload)}{run}", paragraph(told, width=width, indent=" " * 12)]
    return "\n".join(lines) + "\n"
