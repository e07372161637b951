# SPDX-License-Identifier: Apache-2.0
"""What one benchmark does on one machine when nothing is changed: A/A blocks, measured once, used by later trials."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

#: A profile older than this is made anew.
OLDEST_DAYS = 30
_MS_PER_DAY = 86_400_000


class ProfileKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile holds for. `visits` is what was done between the halves of a block: run, boot or build."""

    machine: str
    suite: str
    tool_versions: Mapping[str, str]
    kernel_release: str
    governor: str | None
    visits: str = "run"


class NoiseProfile(msgspec.Struct, frozen=True, kw_only=True):
    """`differences` are the scores of the second half of each A/A block less those of the first, by outcome.

    `events` are how many events its percentiles rest on in a typical run, where that is known.
    `run_sd` and `visit_sd` are the spreads of scores between the runs of one visit and between visits, where known.
    `run_s` is about how long one run of all benchmarks takes, without the wait to settle; null in older profiles.
    `build_s` is about how long it takes to make what a visit measures, where that is made anew.
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
        """Return why it cannot be used for a trial with this key now; empty if it can."""
        reasons = [
            f"{field.replace('_', ' ')} was {_as_text(before)}, is {_as_text(now)}"
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
    return "not known" if value is None else str(value)
