# SPDX-License-Identifier: Apache-2.0
"""What a comparison may speak of: the boots and machines that its runs come from."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.domain.compared import Arm

#: In a scope that cannot be told.
UNKNOWN = "not known"


def scope_of(arms: Sequence[Arm]) -> str:
    """`on this boot, across 8 sessions`, `on this boot pair`, `across 6 boots, across 5 machines`; or it is not known.

    Sessions are told where there are more of them than boots and arms.
    """
    runs = [run for arm in arms for run in arm.good]
    machines = {run.machine for run in runs}
    boots = [{run.boot for run in arm.good} for arm in arms]
    each = [{run.machine for run in arm.good} for arm in arms]
    where = _machines(machines, alone=all(len(some) == 1 for some in each))
    if any(None in some or not some for some in boots):
        return f"{where}, boots {UNKNOWN}" if where else f"boots and machines {UNKNOWN}"
    together = set.union(*boots) if boots else set()
    sessions = {run.session for run in runs}
    several = None not in sessions and len(together) < len(sessions) > len(arms)
    # One boot is on one machine.
    where = where if len(together) > 1 else ""
    parts = (_boots(boots, together), f"across {len(sessions)} sessions" if several else "", where)
    return ", ".join(part for part in parts if part)


def _machines(machines: set[str | None], *, alone: bool) -> str:
    if None in machines or not machines:
        return ""
    if alone and len(machines) > 1:
        return f"on {len(machines)} machines, one for each arm"
    return "on one machine" if len(machines) == 1 else f"across {len(machines)} machines"


def _boots(boots: Sequence[set[str | None]], together: set[str | None]) -> str:
    if len(together) == 1:
        return "on this boot"
    if all(len(some) == 1 for some in boots):
        return "on this boot pair" if len(boots) == 2 else f"on these {len(together)} boots, one for each arm"
    return f"across {len(together)} boots"
