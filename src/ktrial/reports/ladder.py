# SPDX-License-Identifier: Apache-2.0
"""An overview of a ladder: one row per outcome, one column per tier."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.words import effect_text
from ktrial.kit.tables import labelled, table
from ktrial.reports.order import by_weight


def full_picture(found: Comparison, *, width: int) -> str:
    """Return a table with change and verdict of every tier against the control; `noise` stands for `equivalent`.

    Without tiers, or if all outcomes are exploratory, return no text, because the table of verdicts then suffices.
    """
    tiers = list(dict.fromkeys(step.arm for outcome in found.outcomes for step in outcome.steps))
    every = [arm.arm for arm in found.arms if arm.arm != found.control]
    if not tiers or all(outcome.role == "exploratory" for outcome in found.outcomes):
        return ""
    one_benchmark = len({outcome.benchmark for outcome in found.outcomes}) == 1
    rows = []
    for outcome in by_weight(found.outcomes):
        by = {one.arm: one for one in outcome.contrasts}
        star = "*" if outcome.role == "primary" else ""
        name = outcome.outcome if one_benchmark else outcome.name
        rows.append((f"{name}{star}", *(_cell(by.get(arm), outcome) for arm in every)))
    return table((f"to {found.control}", *every), rows, width=width)


def _cell(one: Contrast | None, outcome: OutcomeComparison) -> str:
    if one is None:
        return "-"
    change = effect_text(one.effect, outcome.unit, outcome.direction)[0]
    if outcome.role == "exploratory":
        return f"{change} (explored)"
    if one.verdict == "equivalent":
        return f"{change} noise"
    return one.verdict if one.effect is None else f"{change} {one.verdict}"


def tiers_text(not_run: Mapping[str, str], left_out: Mapping[str, str], *, width: int) -> str:
    """Return a line for each tier that doesn't run, and for each tier that runs without some of its settings."""
    lines = [(name, f"not run: {why}") for name, why in not_run.items()]
    lines += [(name, f"run without: {why}") for name, why in left_out.items()]
    return "".join(labelled(f"  {name}", why, width=width, label_columns=12) + "\n" for name, why in lines)
