# SPDX-License-Identifier: Apache-2.0
"""What a trial over boots measures: what it is about, and how long each boot took."""

from __future__ import annotations

import pytest

from ktrial.bench.suite import Suite, SuiteEntry
from ktrial.trial.arms.boot_arms import BOOT_TIME, with_boot_signs
from ktrial.trial.arms.manual import place_of
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.run.prepare import needed_suite


@pytest.mark.parametrize(
    "primary, measured",
    [
        ("work", ["sh", "idle", BOOT_TIME]),
        (None, ["sh", "idle", BOOT_TIME]),
        ("sh.work", ["sh", BOOT_TIME]),
        (f"{BOOT_TIME}.total", ["sh", "idle", BOOT_TIME]),
    ],
)
def test_the_boot_is_timed_besides_what_the_trial_names(primary: str | None, measured: list[str]) -> None:
    arms = {"control": ArmFile(), "huge": ArmFile(boot=("transparent_hugepage=never",))}
    trial = with_boot_signs(TrialFile(name="boots", suite="own", primary=primary, arms=arms), {})
    entries = tuple(SuiteEntry(use=name) for name in ("sh", "idle", BOOT_TIME))
    suite = needed_suite(trial, Suite(name="own", summary="", benchmark=entries), {})
    assert [entry.label for entry in suite.benchmark] == measured


def test_a_placebo_boots_the_entry_of_the_control() -> None:
    arms = {"control": ArmFile(), "none": ArmFile(placebo=True), "huge": ArmFile(boot=("transparent_hugepage=never",))}
    trial = with_boot_signs(TrialFile(name="boots", suite="own", arms=arms), {})
    assert [place_of(trial, name) for name in arms] == ["control", "control", "huge"]
