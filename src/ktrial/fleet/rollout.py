# SPDX-License-Identifier: Apache-2.0
"""Keeps what a fleet's trial has proven on all machines, wave by wave, and undoes it the same way.

After each wave, each of its machines must still have the settings. If a machine does not, the roll-out stops and
undoes the wave. Only what differs is written or undone, so that an interrupted roll-out can start again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from ktrial.fleet.ansible import TaskResult
from ktrial.fleet.file import FleetTrial, wave_sizes
from ktrial.fleet.log import FleetStanding
from ktrial.fleet.verdict import FleetResult
from ktrial.kit.errors import BadInput, Refused

Direction = Literal["present", "absent"]


class Tasks(Protocol):
    """Runs a task of the collection on hosts."""

    def run(
        self, module: str, arguments: Mapping[str, Mapping[str, Any]], *, check: bool = False
    ) -> Iterator[TaskResult | None]: ...


class WaveOutcome(NamedTuple):
    """The result of a wave: hosts that changed, hosts that needed no change, and failed hosts with the reason."""

    wave: int
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    failed: Mapping[str, str]


def proven_arms(trial: FleetTrial, found: FleetResult) -> list[str]:
    """Return the arms that are `better` with the scope `machines like these`; none if a wave stopped the trial."""
    if any(over.decision == "stop" for over in found.waves):
        return []
    return [
        one.arm
        for one in found.contrasts
        if one.role == "primary"
        and one.verdict == "better"
        and one.scope == "machines like these"
        and not trial.arms[one.arm].placebo
    ]


def proven_arm(trial: FleetTrial, found: FleetResult, wanted: str | None, *, anyway: bool) -> str:
    """Return the arm to keep.

    Raise BadInput if there is no such arm, or if several are better and `wanted` is None. Raise Refused if the arm was
    not proven better, unless `anyway` is set.
    """
    arms = [name for name in trial.arms if name != trial.control and not trial.arms[name].placebo]
    if not arms:
        raise BadInput(f"{found.fleet} has no arm to keep", hint="run a trial with an arm that is not a placebo")
    if wanted is not None and wanted not in arms:
        raise BadInput(f"{found.fleet} has no arm {wanted} to keep", hint=f"use one of: {', '.join(arms)}")
    primary = {one.arm: one for one in found.contrasts if one.role == "primary"}
    better = [name for name in arms if name in primary and primary[name].verdict == "better"]
    if wanted is None and len(better) > 1:
        raise BadInput(
            f"several arms are better: {', '.join(better)}", hint=f"choose an arm, for example  --arm {better[0]}"
        )
    arm = wanted or next(iter(better), arms[0])
    stopped = any(over.decision == "stop" for over in found.waves)
    if anyway or arm in proven_arms(trial, found):
        return arm
    if stopped:
        why = "a wave stopped the trial"
    elif arm not in primary:
        why = "the trial has no result for this arm"
    else:
        why = f"its verdict is {primary[arm].verdict!r} on {primary[arm].scope}"
    raise Refused(
        f"{arm} is not proven better: {why}",
        hint="read `ktrial fleet report`, or add --anyway to keep the arm",
    )


def keep_arguments(trial: FleetTrial, arm: str, direction: Direction) -> dict[str, Any]:
    """Return the arguments of the task that keeps an arm's settings, or stops keeping them.

    Raise BadInput for an arm that does not consist of settings and profiles alone.
    """
    chosen = trial.arms[arm]
    profiles = (chosen.profile,) if isinstance(chosen.profile, str) else chosen.profile
    settings = {
        knob: str(value).lower() if isinstance(value, bool) else str(value) for knob, value in chosen.set.items()
    }
    others = (chosen.commands, chosen.service, chosen.sched_ext, chosen.environment, chosen.parameters, chosen.build)
    is_plain = chosen.command is msgspec.UNSET and chosen.prepare is msgspec.UNSET and not any(others)
    if not is_plain or not (profiles or settings):
        raise BadInput(
            f"cannot roll out {arm}: it does not consist of settings and profiles alone",
            hint="keep its settings with a playbook of your own (docs/playbooks.md)",
        )
    return {"settings": settings, "profiles": list(profiles), "state": direction}


def waves_of(standing: FleetStanding, hosts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the hosts in waves as large as the trial's waves: the trial's machines in order, then other hosts."""
    known = dict.fromkeys(one.host for one in standing.began.machines)
    ordered = [host for host in known if host in set(hosts)] + [host for host in hosts if host not in known]
    found = []
    for size in wave_sizes(standing.began.trial.fleet, len(ordered)):
        found.append(tuple(ordered[:size]))
        ordered = ordered[size:]
    return tuple(found)


def roll_out(
    tasks: Tasks,
    waves: Sequence[Sequence[str]],
    arguments: Mapping[str, Any],
    at_once: int | None,
    tell: Callable[[WaveOutcome], None],
) -> bool:
    """Carry out the waves until one fails; return whether all succeeded. Undo a wave that fails to keep settings."""
    for number, hosts in enumerate(waves, 1):
        outcome = _wave(tasks, number, hosts, arguments, at_once)
        tell(outcome)
        if outcome.failed:
            if arguments["state"] == "present" and outcome.changed:
                back = {**arguments, "state": "absent"}
                tell(_wave(tasks, number, outcome.changed, back, at_once))
            return False
    return True


def _wave(
    tasks: Tasks, number: int, hosts: Sequence[str], arguments: Mapping[str, Any], at_once: int | None
) -> WaveOutcome:
    changed: list[str] = []
    unchanged: list[str] = []
    failed: dict[str, str] = {}
    size = at_once or len(hosts)
    for first in range(0, len(hosts), size):
        part = hosts[first : first + size]
        for result in tasks.run("keep", dict.fromkeys(part, arguments)):
            if result is None:
                continue
            if result.state != "ok":
                failed[result.host] = result.message
            else:
                (changed if result.content.get("changed") else unchanged).append(result.host)
        if failed:
            break
        # The settings in force must now be the ones that were written.
        for result in tasks.run("keep", dict.fromkeys(part, arguments), check=True):
            if result is not None and (result.state != "ok" or result.content.get("changed")):
                failed[result.host] = result.message if result.state != "ok" else "the settings did not stay"
    return WaveOutcome(number, tuple(changed), tuple(unchanged), failed)
