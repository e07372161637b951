# SPDX-License-Identifier: Apache-2.0
"""The plan of a trial's next visits, `ktrial.unattended/1`, which the agent carries out by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ktrial.bench.around.start_gate import COOL_S
from ktrial.bench.benchmark import Invocation
from ktrial.kit.errors import Refused
from ktrial.machine.gate_readings import FACTS, Thermometers
from ktrial.machine.gates import DEFAULTS, GATES, OF_PHONES, OF_THE_RUN, GateLimits, Readings
from ktrial.trial.protocol.file import SafetyLimits

#: Suspension that makes a run void, in seconds. A shorter one cannot be distinguished from the clocks' steps.
VOID_SUSPENDED_S = 0.1
#: The sources of samples for the readings before a run (`machine.gate_readings`).
LOOK_SOURCES = ("cpu", "memory", "fragmentation", "load", "uptime", "temperature", "zram")
#: The sources of readings that a plan can compare: a fact, or the highest of some columns.
_FACTS = {"power_source": "power.source", "battery_percent": "battery.level", "governor": "cpufreq.governor"}


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """How long to observe other programs before a run, and how long that observation stays valid."""

    seconds: float
    holds_s: float


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of a source of samples. Without a value in the column `needed` there is no reading."""

    source: str
    columns: tuple[str, ...]
    needed: str | None = None


class PlannedGate(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that can make a run void before its command."""

    gate: str
    reading: Mapping[str, str | Columns]
    rule: Literal["distance", "ratio", "same"]
    refuse: float = 0.0
    reference: float | str | None = None
    wait_s: float = 0.0


class PlannedArm(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an arm. `beside` maps the files that the arm must not change to their contents."""

    plan: Mapping[str, Any] | None = None
    beside: Mapping[str, str] = {}


class PlannedCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command or a load; `exec` or `load` holds the fields of its request to the agent.

    The head finds the run's files in `folder`, which the agent ignores.
    """

    label: str
    folder: str
    exec: Mapping[str, Any] | None = None
    load: Mapping[str, Any] | None = None


class PlannedVisit(msgspec.Struct, frozen=True, kw_only=True):
    """A visit and the commands of its runs. With `state`, the agent also reads the machine's settings."""

    block: int
    arm: str
    state: bool
    runs: tuple[tuple[PlannedCommand, ...], ...]


class UnattendedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The next visits of a trial in the form that the agent reads; `docs/formats.md` explains each field."""

    schema: Literal["ktrial.unattended/1"] = "ktrial.unattended/1"
    id: str
    trial: str
    token: int
    uid: int
    deadline_unix_ms: int
    settle_s: float
    rest: Rest
    period_s: float | None
    sources: tuple[str, ...] | None
    facts: tuple[str, ...] = FACTS
    counters: tuple[str, ...]
    state: tuple[Mapping[str, Any], ...]
    follows: bool
    void_suspended_s: float = VOID_SUSPENDED_S
    gates: tuple[PlannedGate, ...]
    limits: SafetyLimits
    arms: Mapping[str, PlannedArm]
    visits: tuple[PlannedVisit, ...]


def planned_gates(
    limits: Mapping[str, GateLimits], reference: Readings | None, thermometers: Thermometers
) -> tuple[PlannedGate, ...]:
    """Return the gates that can make a run void, with the readings of the trial's first run.

    Raise Refused for a gate that a plan cannot check.
    """
    found = []
    for name, gate in GATES.items():
        limit = limits.get(name, GateLimits() if name in OF_PHONES else DEFAULTS[name])
        if name in OF_THE_RUN or (limit.refuse is None and limit.same != "refuse"):
            continue
        reading: Mapping[str, str | Columns]
        if gate.reading in _FACTS:
            reading = {"fact": _FACTS[gate.reading]}
        elif name == "start_temperature":
            columns = tuple(sorted(thermometers.known))
            reading = {"highest": Columns(source="temperature", columns=columns, needed=thermometers.hottest)}
        elif name == "uptime":
            reading = {"highest": Columns(source="uptime", columns=("uptime.since_boot",))}
        else:
            raise _beyond(f"the gate {name} with `refuse`", "replace `refuse` with `suspect`")
        assert gate.rule in {"distance", "ratio", "same"}, "gates of these readings compare two runs"
        found.append(
            PlannedGate(
                gate=name,
                reading=reading,
                rule=gate.rule,
                refuse=limit.refuse or 0.0,
                reference=None if reference is None else reference.get(gate.reading),
                wait_s=COOL_S if name == "start_temperature" else 0.0,
            )
        )
    return tuple(found)


def refuse_invocation(label: str, invocation: Invocation) -> None:
    """Raise Refused for a benchmark that needs more than a command or a load."""
    needs = {
        "steps before its run": bool(invocation.steps),
        "root": invocation.load is not None and invocation.load.as_root,
        "a real-time priority": invocation.realtime_priority is not None,
        "a network of its own": invocation.network is not None,
        "files read around its run": bool(invocation.watches),
        "a recording": invocation.records,
        "a folder in memory": invocation.in_memory,
    }
    for what, is_needed in needs.items():
        if is_needed:
            raise _beyond(f"{label}, which needs {what}", "measure something else")


def _beyond(what: str, step: str | None = None) -> Refused:
    return Refused(
        f"cannot run this trial unattended: a plan cannot carry {what}",
        hint=f"leave out --unattended{'' if step is None else f', or {step}'}",
    )


def refuse_shape(names: Sequence[tuple[str, bool]]) -> None:
    """Raise Refused for the first feature in `names` that the trial has, because a plan cannot carry this feature.

    `names` pairs each feature with whether the trial has it.
    """
    for what, has_it in names:
        if has_it:
            raise _beyond(what)
