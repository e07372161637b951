# SPDX-License-Identifier: Apache-2.0
"""Services as arms: the root agent's systemctl starts and stops them, the user's reads their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.bench.benchmark import Invocation
from ktrial.bench.run.ports import Executor
from ktrial.bench.run.undoable_command import ArmCheck, ArmExtras
from ktrial.kit.errors import BadInput
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import checked
from ktrial.trial.arms.plan_arms import in_force
from ktrial.trial.protocol.file import TrialFile
from ktrial.tuning.plans.model import Plan, ServiceStep
from ktrial.tuning.plans.wire import wire_plan

_LIMIT_S = 30.0
#: Answers of `systemctl is-active` for units that are neither starting nor stopping.
_STATES: Mapping[str, Literal["started", "stopped"]] = {
    "active": "started",
    "inactive": "stopped",
    "failed": "stopped",
}

ServiceState = Literal["started", "stopped"]


def service_states(trial: TrialFile, executor: Executor) -> dict[str, ServiceState]:
    """Return the present state of every service that an arm names. Raise BadInput if one is unknown."""
    names = {arm.service.name for arm in trial.arms.values() if arm.service is not None}
    return {name: _state(executor, name) for name in sorted(names)}


def _state(executor: Executor, name: str) -> ServiceState:
    known = executor.run(
        Invocation(argv=("systemctl", "show", "--property=LoadState", "--value", name), limit_s=_LIMIT_S)
    ).raw
    loaded = known.stdout.decode(errors="replace").strip()
    if known.failed is not None or known.exit_status != 0:
        said = known.failed or known.stderr.decode(errors="replace").strip().replace("\n", "; ")
        raise BadInput(f"cannot read the state of {name}: {said}", hint="services need systemd as this machine's init")
    if loaded != "loaded":
        raise BadInput(f"{name} is {loaded or 'unknown'} on this machine", hint="`systemctl list-units` lists units")
    told = executor.run(Invocation(argv=("systemctl", "is-active", name), limit_s=_LIMIT_S)).raw
    state = told.stdout.decode(errors="replace").strip()
    if state not in _STATES:
        raise BadInput(f"{name} is {state or 'in no state'} right now", hint="wait until it has started or stopped")
    return _STATES[state]


def with_services(trial: TrialFile, plans: Mapping[str, Plan], found: Mapping[str, ServiceState]) -> dict[str, Plan]:
    """Return the plans of the arms with the services that they start or stop."""
    return {name: _with_service(trial, name, plan, found) for name, plan in plans.items()}


def _with_service(trial: TrialFile, name: str, plan: Plan, found: Mapping[str, ServiceState]) -> Plan:
    service = in_force(trial, name).service
    if service is None or service.state == found[service.name]:
        return plan
    step = ServiceStep(name=service.name, start=service.state == "started")
    return msgspec.structs.replace(plan, service=step, title=f"trial {trial.name}, arm {name}")


def refuse_others(machine: Machine, plans: Mapping[str, Plan]) -> None:
    """Raise BadInput for an arm whose service the agent refuses to start or stop for anyone."""
    for name, plan in plans.items():
        if plan.service is None:
            continue
        alone = Plan(title=plan.title, changes=(), same=(), refusals=(), service=plan.service)
        (step,) = checked(machine, wire_plan(alone, {"kind": "while-session"}))
        if step.outcome == "forbidden":
            raise BadInput(f"arm {name}: {step.message}", hint="let a person do it: give the arm `manual` and `expect`")


def with_service_checks(
    trial: TrialFile, extras: Mapping[str, ArmExtras], found: Mapping[str, ServiceState]
) -> dict[str, ArmExtras]:
    """Return extras that check every service: as its arm wants it, and in all other arms as it was found."""
    checked = {}
    for name in trial.arms:
        service = in_force(trial, name).service
        wanted = {**found, **({service.name: service.state} if service is not None else {})}
        checks = tuple(
            ArmCheck(argv=("systemctl", "is-active", "--quiet", unit), passes=state == "started")
            for unit, state in wanted.items()
        )
        own = extras.get(name, ArmExtras())
        checked[name] = msgspec.structs.replace(own, checks=(*own.checks, *checks))
    return checked
