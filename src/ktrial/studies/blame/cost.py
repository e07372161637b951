# SPDX-License-Identifier: Apache-2.0
"""Estimates the cost of a blame: the number and duration of its trials if one setting is responsible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ktrial.judge.screening import FIRST_LOOK, MOST_NAMED
from ktrial.judge.sequential import cap_of, looks
from ktrial.studies.blame.blame import ROUNDS
from ktrial.studies.blame.model import BlameQuestion
from ktrial.tuning.knobs.knob import Knob


class StepCost(NamedTuple):
    """A step of a blame, and the minimum and maximum number of its runs."""

    step: str
    least: int
    most: int


def cost_of(question: BlameQuestion) -> tuple[StepCost, ...]:
    """Return the steps of a blame in which one setting is responsible, with the runs of each step."""
    budget = question.budget
    alone = StepCost("try the suspect alone", 2 * _first_look(budget, 1), 2 * budget)
    steps = [StepCost("find the suspect", 2 * min(FIRST_LOOK, question.cap), 2 * question.cap)]
    if question.known is None:
        steps.insert(0, StepCost("show the effect of all", 2 * _first_look(budget, 1), 2 * budget))
    if question.known != "either":
        steps.append(StepCost("confirm: all without the suspect", 3 * _first_look(budget, 3), 3 * budget))
    return (*steps, alone)


def most_runs(question: BlameQuestion) -> int:
    """Return the maximum number of runs in all trials of a blame. Repeated blocks do not count."""
    budget, search = question.budget, 2 * question.cap
    if question.known == "either":
        return search + (MOST_NAMED + 2) * budget
    shown = 2 * budget if question.known is None else 0
    # Each round has a search, all settings with and without the suspects, the suspects alone, and a reduction of a
    # group.
    confirm, group = 3 * budget, MOST_NAMED + 1
    alone = (group + 1) * budget
    needed = sum(size + 1 for size in range(3, group + 1)) * budget
    return shown + ROUNDS * (search + confirm + alone + needed)


def _first_look(cap: int, comparisons: int) -> int:
    """Return the first block after which a trial with this cap can be decided."""
    return min(looks(cap_of(cap), comparisons))


def settle_seconds(question: BlameQuestion, knobs: Mapping[str, Knob]) -> float:
    """Return how long ktrial waits before each visit."""
    if question.trial.settle_s is not None:
        return question.trial.settle_s
    names = {address.partition("@")[0] for one in question.factors for address in one.set}
    return max((knobs[name].settle_s for name in names if name in knobs), default=0.0)
