# SPDX-License-Identifier: Apache-2.0
"""Arms that differ in parameters of the benchmark, and placebos of a control that changes something."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.errors import BadInput
from ktrial.trial.arms.plan_arms import arm_plans, arm_settings, with_placebos
from ktrial.trial.protocol.file import ArmFile, TrialFile, trial_text
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.machine import FakeMachine

SWAPPINESS = "/proc/sys/vm/swappiness"


def trial(**arms: ArmFile) -> TrialFile:
    found = TrialFile(name="own", suite="load", arms=arms)
    check_trial_file(found)
    return found


def prepared(file: TrialFile) -> tuple[dict[str, Any], TrialFile, tuple[str, ...]]:
    plans = arm_plans(file, FakeMachine({SWAPPINESS: "60\n"}), load_catalog())
    settings = arm_settings(file, plans)
    return plans, *with_placebos(file, settings)


def test_a_placebo_is_the_control_again() -> None:
    control = ArmFile(set={"vm.swappiness": 10}, environment={"A": "1"}, parameters={"threads": 2})
    file = trial(control=control, none=ArmFile(placebo=True), more=ArmFile(set={"vm.swappiness": 90}))
    plans, _, idle = prepared(file)
    written = {name: [(change.path, change.new_text) for change in plan.changes] for name, plan in plans.items()}
    assert written["none"] == written["control"] == [(SWAPPINESS, "10")]
    settings = arm_settings(file, plans)
    assert settings["none"] == settings["control"]
    assert (settings["none"].environment, settings["none"].parameters) == ({"A": "1"}, {"threads": 2})
    assert idle == ()


def test_arms_that_differ_in_a_parameter_alone_are_no_placebos() -> None:
    file = trial(control=ArmFile(), more=ArmFile(parameters={"threads": 2}), same=ArmFile(set={"vm.swappiness": 60}))
    _, marked, idle = prepared(file)
    assert idle == ("same",)
    assert not marked.arms["more"].placebo
    assert not ArmFile(parameters={"threads": 2}).changes_nothing


def test_a_placebo_has_no_parameters_of_its_own() -> None:
    with pytest.raises(BadInput, match="a placebo cannot change anything"):
        trial(control=ArmFile(), none=ArmFile(placebo=True, parameters={"threads": 2}))


def test_parameters_are_kept_in_the_file_and_its_hash() -> None:
    file = trial(control=ArmFile(), more=ArmFile(parameters={"huge_pages": "always", "duration_s": 0.5}))
    assert parse_trial_file(trial_text(file).encode(), "f.toml") == file
    other = trial(control=ArmFile(), more=ArmFile(parameters={"huge_pages": "always", "duration_s": 0.4}))
    assert file.sha256 != other.sha256
