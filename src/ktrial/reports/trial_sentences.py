# SPDX-License-Identifier: Apache-2.0
"""Sentences and rows that reports of every kind tell of a trial."""

from __future__ import annotations

from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.trial_summary import ToldTrial


def count_words(number: int, one: str, many: str) -> str:
    """`1 block`, `3 blocks`."""
    return f"{number} {one if number == 1 else many}"


Lines = tuple[str, ...]


def came_to_rows(trial: ToldTrial, control: str) -> list[tuple[str, Lines, Lines, Lines]]:
    """Of each arm: what it set, what was in force already, what was refused and why; each as lines."""
    rows = []
    for one in trial.arms:
        nothing = "nothing: the machine as it was found" if one.arm == control else "nothing: a placebo"
        refused = tuple(f"{name}: {reason}" for name, reason in one.refused.items())
        rows.append((one.arm, one.lines or (nothing,), one.same or ("-",), refused or ("-",)))
    return rows


def placebo_sentences(comparison: Comparison) -> list[str]:
    """Return what arms that change nothing showed: what the set-up sees where there is nothing to be seen."""
    trial = comparison.trial
    placebos = {one.arm for one in trial.arms if one.placebo} if trial is not None else set()
    found = []
    for outcome in comparison.outcomes:
        for contrast in outcome.contrasts:
            if outcome.role != "primary" or contrast.arm not in placebos:
                continue
            if contrast.verdict in ("better", "worse"):
                told = f"is {contrast.verdict} although it changes nothing: this set-up sees what is not there"
            else:
                told = f"changes nothing, and is {contrast.verdict}: this set-up sees nothing where there is nothing"
            found.append(f"The placebo ({contrast.arm}) {told}.")
    return found


def ended_words(comparison: Comparison, trial: ToldTrial) -> str | None:
    """Return why no further run follows; None while the trial goes on."""
    asked = [one.verdict for outcome in comparison.outcomes if outcome.role == "primary" for one in outcome.contrasts]
    if trial.ended is not None and asked and all(verdict == "not comparable" for verdict in asked):
        return "nothing of it can be compared"
    return trial.ended


def blocks_words(trial: ToldTrial) -> str:
    """Return how many of how many; an extended trial has more than its cap."""
    if trial.cap is not None and trial.blocks > trial.cap:
        return f"{trial.blocks} blocks, {trial.blocks - trial.cap} of them after its cap of {trial.cap}"
    return f"{trial.blocks}{'' if trial.cap is None else f' of at most {trial.cap}'} blocks"


def course_sentences(comparison: Comparison, trial: ToldTrial) -> list[str]:
    """Return how far it went and why it ended."""
    why = ended_words(comparison, trial)
    void = sum(one.void is not None for one in trial.drawn)
    told = blocks_words(trial) + (
        f", {count_words(void, 'more is', 'more are')} void and counted nowhere" if void else ""
    )
    ended = "It is not over." if why is None else f"It ended: {why}."
    return [f"{told}. {ended} Before each visit {trial.settle_s:g} s to settle."]
