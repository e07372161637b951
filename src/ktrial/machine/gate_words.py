# SPDX-License-Identifier: Apache-2.0
"""Gates in a line, before the first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.machine.gates import ABSENT, GATES, OF_THE_RUN, GateLimits, Level, Readings, limit_text


def gates_text(limits: Mapping[str, GateLimits], level: Level) -> str:
    """Return all gates of one level with their limits: `on_ac same, start_temperature 8.0 °C`."""
    return ", ".join(
        f"{name} {limit_text(GATES[name], one, level)}" for name, one in limits.items() if _has(one, level)
    )


def unread_gates(limits: Mapping[str, GateLimits], now: Readings) -> tuple[str, ...]:
    """Return gates that are wanted and find nothing to read on this machine before a run."""
    return tuple(
        name for name, limit in limits.items() if not limit.is_off and name not in OF_THE_RUN and _is_silent(name, now)
    )


def idle_gates(limits: Mapping[str, GateLimits], rows: Sequence[Readings]) -> tuple[str, ...]:
    """Return gates that are wanted, and of which no run had anything: the machine has not what they read."""
    return tuple(
        name
        for name, limit in limits.items()
        if rows
        and not limit.is_off
        and all(row.get(GATES[name].reading) == ABSENT for row in rows)
        and GATES[name].rule != "above"
    )


def _is_silent(name: str, now: Readings) -> bool:
    """Return where there is no swap none is in use: such a gate is not silent."""
    reading = now.get(GATES[name].reading)
    return reading is None or (reading == ABSENT and GATES[name].rule != "above")


def _has(limit: GateLimits, level: Level) -> bool:
    if limit.same is not None:
        return limit.same == level
    return (limit.refuse if level == "refuse" else limit.suspect) is not None
