# SPDX-License-Identifier: Apache-2.0
"""The table of causes beside what the tracer tells: no cause waits for events that never come."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktrial.recordings.figures import WHOLE
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.diagnosis.symptoms import Symptom, load_symptoms

SYMPTOMS = load_symptoms(load_catalog())
EVENTS = Path("agent/src/trace/events.rs").read_text()
#: Kinds that the tracer makes, and those that the recording's reader and triggers add.
KINDS = {*re.findall(r'Self::\w+ => "([a-z-]+)"', EVENTS), "nvme-exit"}
#: Over in an instant, or counted and not told one by one, or told where the thread had to wait alone.
WITHOUT_LENGTH = {"migration", "tlb-shootdown", "thp-collapse", "oom", "file-fault"}


@pytest.mark.parametrize("symptom", SYMPTOMS.values(), ids=SYMPTOMS)
def test_events_that_show_a_cause_are_told_with_a_length_where_one_is_wanted(symptom: Symptom) -> None:
    for happening in symptom.happening:
        assert set(happening.events) <= KINDS
        if happening.least_s:
            assert not set(happening.events) & WITHOUT_LENGTH, f"{symptom.id} could never be named"


def test_what_counts_a_cause_is_a_figure_of_a_watched_session() -> None:
    named = {symptom.figure for symptom in SYMPTOMS.values()} - {None}
    assert named
    assert named <= {one.name for one in WHOLE}


def test_the_kinds_are_those_of_the_tracer() -> None:
    assert len(KINDS) == 16
    assert WITHOUT_LENGTH < KINDS
    never = re.search(r"(Self::\w+(?: \| Self::\w+)*) => Told::Never", EVENTS)
    assert never is not None
    assert set(re.findall(r"Self::(\w+)", never[1])) == {"Migration", "TlbShootdown"}
