# SPDX-License-Identifier: Apache-2.0
"""Noise profiles: how much A/A blocks (both arms the same) differ on one machine, measured once for later trials."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

#: A profile older than this is measured again.
OLDEST_DAYS = 30
_MS_PER_DAY = 86_400_000


class ProfileKey(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which a profile is valid. `visits` (run, boot or build) separates the halves of a block."""

    machine: str
    suite: str
    tool_versions: Mapping[str, str]
    kernel_release: str
    governor: str | None
    visits: str = "run"


class NoiseProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The noise of one benchmark on one machine.

    `differences` holds the score of the second half of each A/A block minus the score of the first half, by outcome.
    `events` is how many events the percentiles of a typical run rest on, if known.
    `run_sd` and `visit_sd` are the spreads of scores between runs of one visit and between visits, if known.
    `run_s` is the approximate time of one run of all benchmarks, without the settle time; null in older profiles.
    `build_s` is the approximate time of a build for a visit, if visits are builds.
    """

    key: ProfileKey
    made_unix_ms: int
    differences: Mapping[str, tuple[float, ...]]
    run_sd: Mapping[str, float] = {}
    visit_sd: Mapping[str, float] = {}
    run_s: float | None = None
    build_s: float | None = None
    events: Mapping[str, int] = {}

    def why_stale(self, key: ProfileKey, now_unix_ms: int) -> tuple[str, ...]:
        """Return why this profile cannot serve a trial with this key now; empty if it can."""
        reasons = [
            f"{field.replace('_', ' ')} changed from {_as_text(before)} to {_as_text(now)}"
            for field in ProfileKey.__struct_fields__
            if (before := getattr(self.key, field)) != (now := getattr(key, field))
        ]
        days = (now_unix_ms - self.made_unix_ms) / _MS_PER_DAY
        if days > OLDEST_DAYS:
            reasons.append(f"it is {days:.0f} days old (limit {OLDEST_DAYS})")
        return tuple(reasons)


def _as_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {version}" for name, version in sorted(value.items())) or "none"
    return "unknown" if value is None else str(value)
