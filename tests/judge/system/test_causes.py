# SPDX-License-Identifier: Apache-2.0
"""Planted causes are named alone, the same at other times are not; `python -m perf.causes` counts by the hundred."""

from __future__ import annotations

import pytest

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.diagnosis.diagnose import diagnose
from ktrial.watch.diagnosis.symptoms import load_symptoms
from perf.causes import PLANTED
from tests.support.recordings import recording

SYMPTOMS = load_symptoms(load_catalog())


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_cause_is_named_alone(what: str) -> None:
    for seed in (101, 102):
        assert [one.id for one in diagnose(recording(seed, what), SYMPTOMS).named] == [PLANTED[what]]


def test_causes_at_other_times_are_hardly_ever_named() -> None:
    """Of fourteen with a chance of 5 % at most each, five or more are a chance below 0.1 %."""
    found = [diagnose(recording(200, what, shuffled=True), SYMPTOMS).named for what in PLANTED]
    assert sum(map(bool, found)) <= 4


def test_a_program_that_only_sleeps_late_now_and_then_is_none_of_these() -> None:
    assert diagnose(recording(300, None), SYMPTOMS).named == ()
