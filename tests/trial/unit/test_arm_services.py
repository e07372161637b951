# SPDX-License-Identifier: Apache-2.0
"""A service's state as an arm."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import BadInput
from ktrial.trial.arms.plan_arms import (
    SETTLE_S,
    arm_settings,
    found_values,
    refuse_others,
    service_states,
    settle_s,
    with_placebos,
    with_service_checks,
    with_services,
)
from ktrial.trial.protocol.file import ArmFile, ServiceFile, TrialFile
from ktrial.tuning.plans.model import Plan
from ktrial.tuning.plans.wire import wire_plan
from tests.support.bench import FakeExecutor, answer
from tests.support.machine import FakeMachine, step_told

NAME = "irqbalance.service"
EMPTY = Plan(title="", changes=(), same=(), refusals=())


def file(**arms: Any) -> TrialFile:
    told = {name: ArmFile(service=ServiceFile(name=NAME, state=state)) for name, state in arms.items()}
    return TrialFile(name="t", suite="tool", arms={"control": ArmFile(), "placebo": ArmFile(placebo=True), **told})


def systemctl(loaded: str = "loaded", active: str = "active") -> FakeExecutor:
    def reply(argv: tuple[str, ...]) -> RawOutput:
        if argv[1] == "show":
            return answer(f"{loaded}\n".encode())
        return answer(f"{active}\n".encode(), exit_status=0 if active == "active" else 3)

    return FakeExecutor(reply)


def test_it_is_stopped_by_the_agent_and_started_again() -> None:
    trial = file(stopped="stopped", started="started")
    found = service_states(trial, systemctl())
    assert found == {NAME: "started"}
    plans = with_services(trial, dict.fromkeys(trial.arms, EMPTY), found)
    assert [name for name, plan in plans.items() if not plan.empty] == ["stopped"]
    (step,) = wire_plan(plans["stopped"], {"kind": "while-session"})["steps"]
    assert step == {"kind": "run", "do": ["systemctl", "stop", NAME], "undo": ["systemctl", "start", NAME]}
    arms = arm_settings(trial, plans)
    assert arms["stopped"].changes == {f"service {NAME}": "stopped"}
    assert found_values(plans) == {f"service {NAME}": "started"}
    assert with_placebos(trial, arms)[1] == ("started",), "it is started already"
    assert settle_s(trial, plans, {}) == SETTLE_S


def test_a_stopped_one_is_started_and_stopped_again() -> None:
    trial = file(started="started")
    found = service_states(trial, systemctl(active="inactive"))
    plan = with_services(trial, dict.fromkeys(trial.arms, EMPTY), found)["started"]
    (step,) = wire_plan(plan, {"kind": "while-session"})["steps"]
    assert (step["do"][1], step["undo"][1]) == ("start", "stop")


def test_it_must_be_as_the_arm_wants_it_and_elsewhere_as_found() -> None:
    trial = file(stopped="stopped")
    extras = with_service_checks(trial, {}, {NAME: "started"})
    wanted = {name: [check.passes for check in one.checks] for name, one in extras.items()}
    assert wanted == {"control": [True], "placebo": [True], "stopped": [False]}
    assert extras["control"].checks[0].argv == ("systemctl", "is-active", "--quiet", NAME)


@pytest.mark.parametrize(
    "executor, why",
    [
        (systemctl(loaded="not-found"), "its load state is not-found"),
        (systemctl(active="activating"), "its state is activating"),
        (FakeExecutor(lambda _: answer(stderr=b"System has not been booted\n", exit_status=1)), "not been booted"),
        (FakeExecutor(lambda _: RawOutput(failed="no such program")), "no such program"),
    ],
)
def test_one_that_cannot_be_known_is_refused(executor: FakeExecutor, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        service_states(file(stopped="stopped"), executor)


@pytest.mark.parametrize("state, hint", [("activating", "wait until"), ("maintenance", "run `systemctl status")])
def test_only_a_state_that_will_change_is_waited_for(state: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        service_states(file(stopped="stopped"), systemctl(active=state))
    assert (caught.value.hint or "").startswith(hint)


def test_one_that_the_agent_never_starts_is_refused_before_anything_runs() -> None:
    machine = FakeMachine({})
    machine.answers["plan"] = {"steps": [step_told(outcome="ready")]}
    trial = file(stopped="stopped")
    plans = with_services(trial, dict.fromkeys(trial.arms, EMPTY), {NAME: "started"})
    refuse_others(machine, plans)
    asked = [fields["plan"]["steps"] for _, fields in machine.requests]
    assert asked == [wire_plan(plans["stopped"], {"kind": "while-session"})["steps"]]
    machine.answers["plan"]["steps"][0] |= {"outcome": "forbidden", "message": "no tuner"}
    with pytest.raises(BadInput, match="arm stopped: no tuner") as error:
        refuse_others(machine, plans)
    assert "`manual`" in (error.value.hint or "")


def test_nothing_is_asked_where_no_arm_names_one() -> None:
    executor = systemctl()
    assert service_states(file(), executor) == {}
    assert executor.log == []
