# SPDX-License-Identifier: Apache-2.0
"""Checks that an arm's machine differs from the control's only in the changes that the arm declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktrial.judge.model.comparison import StateChange
from ktrial.kit.finding import Finding
from ktrial.trial.arms.manual import implied
from ktrial.trial.arms.plan_arms import SCHED_EXT
from ktrial.trial.record import ArmSettings, StoredTrial
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.state.diff import Declaration, ValueDifference
from ktrial.tuning.state.snapshot import compare_states, coupled_with
from ktrial.tuning.state.state import parse_state

#: Number of differences that a sentence names.
_NAMED = 3
_OF_SCHED_EXT = ("kernel.scheduler", "kernel.sched_ext_state", "kernel.sched_ext_name")


def purity(
    trial: StoredTrial, states: Mapping[str, bytes], catalog: Catalog
) -> tuple[tuple[StateChange, ...], tuple[Finding, ...]]:
    """Return each arm's differences from the control in the machine's state, and findings on undeclared differences.

    `states` contains the machine's state at each arm's first visit.
    """
    control = trial.file.control
    if control not in states:
        return (), ()
    before = parse_state(states[control], f"the state of {control}")
    base = _declared(control, trial.arms[control], catalog)
    changes: list[StateChange] = []
    findings: list[Finding] = []
    for arm in trial.arms:
        if arm == control or arm not in states:
            continue
        after = parse_state(states[arm], f"the state of {arm}")
        found = compare_states(before, after, (*_declared(arm, trial.arms[arm], catalog), *base))
        changes += [_change(arm, one) for one in (*found.undeclared, *found.declared)]
        # Differences with a note are known to come from the kernel itself.
        doubtful = [one for one in found.undeclared if one.note is None]
        if doubtful:
            findings.append(_impure(arm, doubtful))
    return tuple(changes), tuple(findings)


def _change(arm: str, one: ValueDifference) -> StateChange:
    return StateChange(
        arm=arm, name=one.name, control_value=one.before, arm_value=one.after, declared=one.declared or one.note
    )


def _impure(arm: str, found: list[ValueDifference]) -> Finding:
    told = ", ".join(f"{one.name} is {one.after} instead of {one.before}" for one in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return Finding(
        kind="impure",
        level="suspect",
        sentence=f"with {arm} in force, the machine differs in values that the protocol does not declare: {told}{more}",
        values={arm: float(len(found))},
    )


def _declared(arm: str, settings: ArmSettings, catalog: Catalog) -> Iterator[Declaration]:
    by = f"arm {arm}"
    yield from (Declaration(by=by, knob=name) for name in implied(settings.expect))
    for address in (*settings.changes, *settings.same):
        name = address.partition("@")[0]
        if name in catalog.knobs:
            yield Declaration(by=by, knob=address)
            yield from coupled_with(address, by, catalog)
        elif address.startswith("service "):
            # The state lists daemons by the names of their processes.
            unit = address.removeprefix("service ").rpartition(".")[0]
            yield Declaration(by=by, fact=f"services.active {unit}")
        elif name == SCHED_EXT:
            yield from (Declaration(by=by, fact=fact) for fact in _OF_SCHED_EXT)
            daemon = settings.changes[SCHED_EXT].partition("(")[2].partition(" ")[0].rstrip(")").rpartition("/")[2]
            yield Declaration(by=by, fact=f"services.active {daemon}")
        elif name == "zram":
            yield from (Declaration(by=by, knob=knob.id) for knob in catalog.knobs.values() if knob.kind == "zram")
