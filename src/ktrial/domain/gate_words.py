# SPDX-License-Identifier: Apache-2.0
"""Gates in a line, before the first run."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.domain.gate import GATES, GateLimits, Level, limit_text


def gates_text(limits: Mapping[str, GateLimits], level: Level) -> str:
    """All gates of one level with their limits: `on_ac same, start_temperature 8.0 °C`."""
    return ", ".join(
        f"{name} {limit_text(GATES[name], one, level)}" for name, one in limits.items() if _has(one, level)
    )


def _has(limit: GateLimits, level: Level) -> bool:
    if limit.same is not None:
        return limit.same == level
    return (limit.refuse if level == "refuse" else limit.suspect) is not None
