# SPDX-License-Identifier: Apache-2.0
"""Every setting is in force once before anything is measured."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.errors import BadInput, BadRun
from ktrial.trial.arms.arms import rehearse
from ktrial.tuning.plans.model import Plan
from tests.support.knobs import KNOBS, knob
from tests.support.machine import step_told, transaction_told
from tests.support.trial_course import FOUND, PAGE_CLUSTER, SWAPPINESS, TunableMachine, plan_of

NOTHING = Plan("control", (), (), ())


class Refusing(TunableMachine):
    """Takes no value of page-cluster."""

    def _apply(self, plan: Any) -> dict[str, Any]:
        refused = [step for step in plan["steps"] if step["path"].endswith("page-cluster")]
        if not refused:
            return super()._apply(plan)
        told = [
            step_told(path="/first", outcome="rolled-back", message="put back, because another step failed"),
            *(step_told(path=step["path"], outcome="refused", message="Invalid argument") for step in refused),
            step_told(path="/last", outcome="not-tried", message="not tried, because another step failed"),
        ]
        return transaction_told(state="rolled-back", steps=told)


def test_each_setting_is_in_force_once_and_taken_back() -> None:
    machine = TunableMachine(FOUND)
    plans = {
        "control": NOTHING,
        "a": plan_of(SWAPPINESS, "vm.swappiness", "10"),
        "again": plan_of(SWAPPINESS, "vm.swappiness", "10"),
        "b": plan_of(SWAPPINESS, "vm.swappiness", "20"),
    }
    rehearse(machine, plans, KNOBS)
    assert machine.history == ["vm.swappiness=10", "as found", "vm.swappiness=20", "as found"]
    assert machine.files == FOUND
    assert machine.open == {}


@pytest.mark.parametrize(
    "known, hint",
    [
        ({}, "remove the setting, or run `ktrial explain vm.page-cluster`; nothing was measured"),
        ({"vm.page-cluster": knob("vm.page-cluster")}, "run `ktrial explain vm.page-cluster`"),
        (
            {"vm.page-cluster": knob("vm.page-cluster", successor=["vm.new"]), "vm.new": knob("vm.new")},
            "use vm.new instead",
        ),
    ],
)
def test_what_the_kernel_refuses_is_told_with_what_to_do(known: dict[str, Any], hint: str) -> None:
    machine = Refusing(FOUND)
    plans = {
        "a": plan_of(SWAPPINESS, "vm.swappiness", "10"),
        "b": plan_of(PAGE_CLUSTER, "vm.page-cluster", "0"),
    }
    with pytest.raises(BadInput, match=rf"arm b in force: .*{PAGE_CLUSTER}: Invalid argument") as caught:
        rehearse(machine, plans, known)
    assert hint in str(caught.value.hint)
    assert machine.files == FOUND
    assert machine.open == {}


def test_a_machine_that_changes_meanwhile_is_told() -> None:
    machine = TunableMachine(FOUND)

    def change(do: str) -> None:
        if do == "verify":
            machine.files[SWAPPINESS] = "77\n"

    machine.on_request = change
    with pytest.raises(BadRun, match="reads '77' instead of '10'"):
        rehearse(machine, {"a": plan_of(SWAPPINESS, "vm.swappiness", "10")}, KNOBS)
    assert machine.open == {}


def test_without_settings_no_root_is_needed() -> None:
    rehearse(None, {"control": NOTHING, "placebo": NOTHING}, KNOBS)
