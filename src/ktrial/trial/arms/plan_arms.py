# SPDX-License-Identifier: Apache-2.0
"""Plans of a trial's arms on this machine, with their services.

The functions raise an error for settings that cannot be tried here. The root agent's systemctl starts and stops
services; the user's systemctl reads their state.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ktrial.bench.benchmark import Invocation
from ktrial.bench.run.ports import Executor
from ktrial.bench.run.undoable_command import ArmCheck, ArmExtras
from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import checked
from ktrial.trial.protocol.file import COMPARED, ArmFile, ServiceState, TrialFile
from ktrial.trial.record import ArmSettings
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import is_assignment, parse_address
from ktrial.tuning.knobs.knob import Knob, clear_each_other
from ktrial.tuning.knobs.profile import flatten
from ktrial.tuning.plans.model import Plan, Refusal, ServiceStep, Why
from ktrial.tuning.plans.resolve import make_plan
from ktrial.tuning.plans.wire import wire_plan

#: Seconds to wait after commands and services that put an arm in force, unless a setting needs more.
SETTLE_S = 1.0
#: Name of the scheduler among the changes of an arm.
SCHED_EXT = "sched_ext"
#: Name of the build among the changes of an arm.
BUILD = "build"


def arm_plans(
    trial: TrialFile,
    machine: Machine,
    catalog: Catalog,
    *,
    allow_dangerous: bool = False,
    only: Collection[str] | None = None,
) -> dict[str, Plan]:
    """Return the plan of each arm, or of each arm in `only`.

    Raise an error for an impossible setting before anything is written.
    """
    prefix = () if trial.baseline == "found" else (trial.baseline,)
    arms, plans = trial.full_arms, {}
    for name in arms if only is None else only:
        words = (*prefix, *arms[name].words)
        if not words:
            plans[name] = Plan(title=name, changes=(), same=(), refusals=())
            continue
        plan, _ = make_plan(machine, catalog, words, allow_dangerous=allow_dangerous, later_wins=True)
        _refuse(name, plan, {f"setting {word}" for word in words if is_assignment(word)}, allow_dangerous)
        _refuse_pairs(name, arms[name], catalog.knobs)
        plans[name] = msgspec.structs.replace(plan, title=f"trial {trial.name}, arm {name}")
    return plans


def _refuse(arm: str, plan: Plan, asked: set[str], allow_dangerous: bool) -> None:
    """Raise an error if a setting that the arm names is impossible, or if no setting of its profile is possible."""
    dangerous = [one for one in plan.refusals if one.kind is Why.DANGEROUS]
    if dangerous and not allow_dangerous:
        names = ", ".join(one.address for one in dangerous)
        raise Refused(
            f"arm {arm} sets dangerous knobs: {names}",
            hint=f"add --yes-dangerous to accept the danger (see `ktrial explain {dangerous[0].address}`)",
        )
    named = [one for one in plan.refusals if one.origin in asked]
    if named:
        raise BadInput(
            f"arm {arm} cannot set {_refusal_text(named[0])}",
            hint=named[0].hint or f"run `ktrial explain {named[0].knob}`",
        )
    if plan.refusals and plan.empty and not plan.same:
        first = plan.refusals[0]
        raise BadInput(
            f"arm {arm}: none of the arm's settings is possible here; "
            f"the first is {first.address} = {first.value} ({first.reason})",
            hint=first.hint or f"run `ktrial explain {first.knob}`",
        )


def _refuse_pairs(name: str, arm: ArmFile, knobs: Mapping[str, Knob]) -> None:
    """Raise BadInput if one setting of an arm clears another setting.

    Between profiles the later profile wins.
    """
    named = [
        (f"{address}={value}", knobs[parse_address(address).knob])
        for address, value in arm.set.items()
        if str(value) != "0"
    ]
    for (word, knob), (other, partner) in itertools.combinations(named, 2):
        if clear_each_other(knob, partner):
            raise BadInput(
                f"arm {name} sets both {word} and {other}: the kernel clears one when the other is written",
                hint="set only one of the two knobs",
            )


def _refusal_text(refusal: Refusal) -> str:
    return f"{refusal.address} = {refusal.value}: {refusal.reason}"


def arm_settings(trial: TrialFile, plans: Mapping[str, Plan]) -> dict[str, ArmSettings]:
    arms = trial.full_arms
    return {name: _settings(plan, arms[name]) for name, plan in plans.items()}


def _settings(plan: Plan, arm: ArmFile) -> ArmSettings:
    changes = {change.address: change.new_text for change in plan.changes}
    if plan.zram is not None:
        changes["zram"] = f"{plan.zram.size_bytes} B, {plan.zram.algorithm or 'as it is'}"
    if plan.service is not None:
        changes[_service(plan.service)] = "started" if plan.service.start else "stopped"
    if arm.sched_ext is not None:
        changes[SCHED_EXT] = f"{arm.sched_ext.name} ({arm.sched_ext.text})"
    if arm.build is not None:
        changes[BUILD] = f"{arm.build.artefact} by {shlex.join(arm.build.run)}"
    return ArmSettings(
        changes=changes,
        same=tuple(change.address for change in plan.same),
        refused={refusal.address: refusal.reason for refusal in plan.refusals},
        inert={change.address: change.inert for change in plan.changes if change.inert},
        environment=arm.environment,
        parameters={**arm.parameters, **_own_command(arm)},
        manual=arm.manual,
        expect=arm.expect,
        commands=tuple(f"{shlex.join(one.run)}; undone by {shlex.join(one.undo)}" for one in arm.commands),
    )


def _own_command(arm: ArmFile) -> dict[str, str]:
    prepare = {"prepare": "; ".join(map(shlex.join, arm.prepare))} if arm.prepare else {}
    return {COMPARED: shlex.join(arm.command), **prepare} if arm.command else {}


def _service(step: ServiceStep) -> str:
    return f"service {step.name}"


def found_values(plans: Mapping[str, Plan]) -> dict[str, str]:
    """Return the current values of all settings that some arm changes. The control has these values."""
    found = {
        change.address: change.old_text
        for plan in plans.values()
        for change in plan.changes
        if change.old_text is not None
    }
    services = [plan.service for plan in plans.values() if plan.service is not None]
    return found | {_service(one): "stopped" if one.start else "started" for one in services}


def with_placebos(trial: TrialFile, arms: Mapping[str, ArmSettings]) -> tuple[TrialFile, tuple[str, ...]]:
    """Mark arms that equal the control here as placebos. Return the trial, and the names of these arms."""
    control = _what_differs(arms[trial.control])
    found = tuple(
        name
        for name, arm in trial.arms.items()
        if name != trial.control and not arm.placebo and arm.manual is None and _what_differs(arms[name]) == control
    )
    marked = {
        name: msgspec.structs.replace(arm, placebo=True) if name in found else arm for name, arm in trial.arms.items()
    }
    return msgspec.structs.replace(trial, arms=marked), found


def _what_differs(arm: ArmSettings) -> tuple[Mapping[str, Any], ...]:
    return arm.changes, arm.environment, arm.parameters, {"commands": arm.commands}


def settle_s(trial: TrialFile, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> float:
    """Return the seconds that every visit waits: the protocol's `settle`, or the longest wait that a setting needs."""
    return _longest_wait(trial, [change.knob for plan in plans.values() for change in plan.changes], knobs)


def settle_before(trial: TrialFile, catalog: Catalog) -> float:
    """Return the longest wait in seconds that a visit may need, before the machine's plans are known.

    The wait may turn out shorter, because a plan leaves out settings that are already in force.
    """
    names = [address.partition("@")[0] for arm in trial.full_arms.values() for address in arm.set]
    for arm in trial.full_arms.values():
        profiles = (arm.profile,) if isinstance(arm.profile, str) else arm.profile
        known = [name for name in profiles if name in catalog.profiles]
        names += [one.knob.partition("@")[0] for name in known for one in flatten(name, catalog.profiles)]
    return _longest_wait(trial, names, catalog.knobs)


def _longest_wait(trial: TrialFile, names: Iterable[str], knobs: Mapping[str, Knob]) -> float:
    if trial.settle_s is not None:
        return trial.settle_s
    waits = [knobs[name].settle_s for name in names if name in knobs]
    arms = trial.full_arms.values()
    if any(arm.service or arm.sched_ext or arm.build for arm in arms) or len({arm.commands for arm in arms}) > 1:
        waits.append(SETTLE_S)
    return max(waits, default=0.0)


_LIMIT_S = 30.0
#: Answers of `systemctl is-active` for units that are neither starting nor stopping.
_STATES: Mapping[str, ServiceState] = {
    "active": "started",
    "inactive": "stopped",
    "failed": "stopped",
}
#: Answers for units that will soon have another state.
_CHANGING = frozenset({"activating", "deactivating", "reloading", "refreshing"})


def service_states(trial: TrialFile, executor: Executor) -> dict[str, ServiceState]:
    """Return the current state of every service that an arm names. Raise BadInput if ktrial cannot use a service."""
    names = {arm.service.name for arm in trial.arms.values() if arm.service is not None}
    return {name: _state(executor, name) for name in sorted(names)}


def _state(executor: Executor, name: str) -> ServiceState:
    known = executor.run(
        Invocation(argv=("systemctl", "show", "--property=LoadState", "--value", name), limit_s=_LIMIT_S)
    ).raw
    loaded = known.stdout.decode(errors="replace").strip()
    if known.failed is not None or known.exit_status != 0:
        said = known.failed or known.stderr.decode(errors="replace").strip().replace("\n", "; ")
        raise BadInput(
            f"cannot read the state of {name}: {said}",
            hint="remove the service from the arm: ktrial needs a running systemd to manage services",
        )
    if loaded != "loaded":
        raise BadInput(
            f"cannot use {name}: its load state is {loaded or 'unknown'}",
            hint=f"run `systemctl unmask {name}`"
            if loaded == "masked"
            else "name a unit that `systemctl list-unit-files` shows",
        )
    told = executor.run(Invocation(argv=("systemctl", "is-active", name), limit_s=_LIMIT_S)).raw
    state = told.stdout.decode(errors="replace").strip()
    if state not in _STATES:
        raise BadInput(
            f"cannot use {name}: its state is {state or 'unknown'}",
            hint="wait until the service has started or stopped"
            if state in _CHANGING
            else f"run `systemctl status {name}` to see why",
        )
    return _STATES[state]


def with_services(trial: TrialFile, plans: Mapping[str, Plan], found: Mapping[str, ServiceState]) -> dict[str, Plan]:
    arms, changed = trial.full_arms, dict(plans)
    for name, plan in plans.items():
        service = arms[name].service
        if service is not None and service.state != found[service.name]:
            step = ServiceStep(name=service.name, start=service.state == "started")
            changed[name] = msgspec.structs.replace(plan, service=step, title=f"trial {trial.name}, arm {name}")
    return changed


def refuse_others(machine: Machine, plans: Mapping[str, Plan]) -> None:
    """Raise BadInput for a service that the agent never starts or stops."""
    for name, plan in plans.items():
        if plan.service is None:
            continue
        alone = Plan(title=plan.title, changes=(), same=(), refusals=(), service=plan.service)
        (step,) = checked(machine, wire_plan(alone, {"kind": "while-session"}))
        if step.outcome == "forbidden":
            raise BadInput(
                f"arm {name}: {step.message}", hint="replace `service` with `manual`, and set up the service by hand"
            )


def with_service_checks(
    trial: TrialFile, extras: Mapping[str, ArmExtras], found: Mapping[str, ServiceState]
) -> dict[str, ArmExtras]:
    """Return extras that check each service: in its own arm for the new state, in all other arms for the old state."""
    checked = {}
    for name, arm in trial.full_arms.items():
        service = arm.service
        wanted = {**found, **({service.name: service.state} if service is not None else {})}
        checks = tuple(
            ArmCheck(argv=("systemctl", "is-active", "--quiet", unit), passes=state == "started")
            for unit, state in wanted.items()
        )
        own = extras.get(name, ArmExtras())
        checked[name] = msgspec.structs.replace(own, checks=(*own.checks, *checks))
    return checked
