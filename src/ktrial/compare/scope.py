# SPDX-License-Identifier: Apache-2.0
"""The scope of a comparison: the boots and machines that its runs come from."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.compare.arms import Arm, ComparedRun

#: Part of a scope that the data don't state.
UNKNOWN = "not known"
#: Two host names with all of this known and equal are probably one machine.
_HARDWARE = ("cpu", "board", "memory")


def scope_of(arms: Sequence[Arm]) -> str:
    """Return text like `on this boot, across 8 sessions` or `across 6 boots, across 5 machines`.

    The text mentions sessions if there are more of them than boots and arms, and says if boots or machines are unknown.
    """
    runs = [run for arm in arms for run in arm.good]
    boots = [{run.boot for run in arm.good} for arm in arms]
    each = [{run.machine for run in arm.good} for arm in arms]
    where = _machines(runs, alone=all(len(some) == 1 for some in each))
    if any(None in some or not some for some in boots):
        return f"{where}, boots {UNKNOWN}" if where else f"boots and machines {UNKNOWN}"
    together = set.union(*boots) if boots else set()
    sessions = {run.session for run in runs}
    several = None not in sessions and len(together) < len(sessions) > len(arms)
    # One boot is on one machine.
    where = where if len(together) > 1 else ""
    parts = (_boots(boots, together), f"across {len(sessions)} sessions" if several else "", where)
    return ", ".join(part for part in parts if part)


def _machines(runs: Sequence[ComparedRun], *, alone: bool) -> str:
    machines = {run.machine for run in runs}
    if None in machines or not machines:
        return ""
    what, told = _machine_evidence(runs, len(machines))
    if alone and len(machines) > 1:
        return f"on {len(machines)} {what}s, one for each arm{told}"
    return f"on one {what}{told}" if len(machines) == 1 else f"across {len(machines)} {what}s{told}"


def _machine_evidence(runs: Sequence[ComparedRun], machines: int) -> tuple[str, str]:
    if not any(run.by_host_name for run in runs):
        return "machine", ""
    hardware = {tuple(run.known.get(name) for name in _HARDWARE) for run in runs}
    whole = not any(None in some for some in hardware)
    if machines == 1:
        return "host name", " of different hardware" if whole and len(hardware) > 1 else ""
    if whole and len(hardware) == 1:
        return "host name", " of probably one machine (the same CPU, board and memory)"
    return ("machine", "") if whole and len(hardware) == machines else ("host name", "")


def _boots(boots: Sequence[set[str | None]], together: set[str | None]) -> str:
    if len(together) == 1:
        return "on this boot"
    if all(len(some) == 1 for some in boots):
        return "on this boot pair" if len(boots) == 2 else f"on these {len(together)} boots, one for each arm"
    return f"across {len(together)} boots"
