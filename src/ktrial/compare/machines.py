# SPDX-License-Identifier: Apache-2.0
"""Arms measured on several machines: the machine of every run, and doubts and orders per machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.compare.arms import Arm, ComparedRun, places
from ktrial.compare.comparability import Doubt, doubts
from ktrial.compare.pairing import pair_sessions
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding

#: Properties that identify a machine whose results do not name it.
_HARDWARE: Mapping[str, str] = {"cpu": "{}", "threads": "{} CPUs", "memory": "{}", "virtualisation": "{}"}


def on_machines(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], tuple[Finding, ...]]:
    """Return the arms and findings about the blocks.

    In these arms each machine has a name, and no block contains runs of two machines.
    Raise BadInput if a run's machine is unknown, or all runs are from one machine.
    """
    names = _names(arms)
    named = [_replaced(arm, [_with_machine_name(run, names) for run in arm.runs]) for arm in arms]
    _refuse(named)
    runs: dict[str, list[ComparedRun]] = {arm.name: [] for arm in arms}
    findings = []
    for machine, own in split(named).items():
        paired, told = pair_sessions(own) if all(arm.runs for arm in own) else (own, None)
        if told is not None:
            findings.append(msgspec.structs.replace(told, sentence=f"{machine}: {told.sentence}"))
        for arm in paired:
            runs[arm.name] += [_block_of(machine, run) for run in arm.runs]
    return tuple(_replaced(arm, runs[arm.name]) for arm in named), tuple(findings)


def split(arms: Sequence[Arm]) -> dict[str, tuple[Arm, ...]]:
    names = dict.fromkeys(str(run.machine) for arm in arms for run in arm.runs)
    return {
        name: tuple(_replaced(arm, [run for run in arm.runs if run.machine == name]) for arm in arms) for name in names
    }


def places_there(arms: Sequence[Arm]) -> dict[str, int]:
    """Map each run to its place, one machine after the other; empty if the order on a machine is unknown."""
    found: dict[str, int] = {}
    for own in split(arms).values():
        order = places(own)
        if not order:
            return {}
        found |= {run: len(found) + place for run, place in order.items()}
    return found


def machine_doubts(arms: Sequence[Arm], declared: Sequence[str]) -> Iterator[Doubt]:
    """Yield the doubts about the arms on each machine, against the control on the same machine."""
    for machine, (control, *others) in split(arms).items():
        there = [arm for arm in others if arm.runs]
        for doubt in doubts(control, there, declared) if control.runs and there else ():
            finding = doubt.finding
            if finding.level != "note":
                finding = msgspec.structs.replace(finding, sentence=f"on {machine}, {finding.sentence}")
            yield msgspec.structs.replace(doubt, finding=finding)


def scope_over(arms: Sequence[Arm]) -> str:
    return f"across {len(split(arms))} machines"


def _hardware(run: ComparedRun) -> str | None:
    """Return the hardware of a run; None if it is unknown or the run's file names the machine."""
    told = [wording.format(run.known[key]) for key, wording in _HARDWARE.items() if key in run.known]
    if run.machine is None:
        return ", ".join(told) if "cpu" in run.known else None
    return None if run.session is None else ", ".join(told) or "machine"


def _names(arms: Sequence[Arm]) -> dict[tuple[str, str | None], str]:
    """Name the machines of the store by their hardware, with a number if several have the same hardware.

    If a run does not identify its machine, all machines with the same hardware count as one.
    """
    alike: dict[str, dict[str | None, None]] = {}
    for arm in arms:
        for run in arm.runs:
            if (hardware := _hardware(run)) is not None:
                alike.setdefault(hardware, {})[run.machine] = None
    found: dict[tuple[str, str | None], str] = {}
    for hardware, machines in alike.items():
        for number, machine in enumerate(machines, 1):
            several = len(machines) > 1 and None not in machines
            found[hardware, machine] = f"{hardware}, no. {number}" if several else hardware
    return found


def _with_machine_name(run: ComparedRun, names: Mapping[tuple[str, str | None], str]) -> ComparedRun:
    hardware = _hardware(run)
    return run if hardware is None else msgspec.structs.replace(run, machine=names[hardware, run.machine])


def _refuse(arms: Sequence[Arm]) -> None:
    runs = [run for arm in arms for run in arm.runs]
    lost = [run for run in runs if run.machine is None]
    if lost:
        raise BadInput(
            f"--pool: the machine of {len(lost)} of {len(runs)} runs is unknown, starting with {lost[0].name}",
            hint="leave out --pool, or add a column hostname, host or machine to the file",
        )
    machines = {run.machine for run in runs}
    if len(machines) == 1:
        raise BadInput(
            f"--pool: all runs are from one machine, {machines.pop()}", hint="leave out --pool, or add other machines"
        )


def _replaced(arm: Arm, runs: Sequence[ComparedRun]) -> Arm:
    return msgspec.structs.replace(arm, runs=tuple(runs))


def _block_of(machine: str, run: ComparedRun) -> ComparedRun:
    return run if run.block is None else msgspec.structs.replace(run, block=f"{machine}, {run.block}")
