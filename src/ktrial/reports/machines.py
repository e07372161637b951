# SPDX-License-Identifier: Apache-2.0
"""Results on several machines as rows of a table: each machine, their mean, and the prediction for a new machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison, Pooled
from ktrial.judge.model.words import effect_text, percent_text, range_text, value_log_ratio
from ktrial.reports.order import by_weight

HEADERS = ("outcome", "arm", "machine", "blocks", "change", "interval", "why")
#: Columns of numbers.
NUMERIC = (3, 4, 5)


class MachineRow(NamedTuple):
    """A row about one machine, about all machines together, or with the prediction for another machine."""

    outcome: str
    arm: str
    machine: str
    blocks: str
    change: str
    interval: str
    why: str


def machine_rows(comparison: Comparison) -> list[MachineRow]:
    """Return the rows of all contrasts that were measured on several machines."""
    return [
        row
        for outcome in by_weight(comparison.outcomes)
        for contrast in outcome.contrasts
        for row in contrast_rows(outcome, contrast)
    ]


def machines_caption(comparison: Comparison) -> str:
    """Return the caption of a table of `machine_rows`."""
    pooled = (contrast.pooled for outcome in comparison.outcomes for contrast in outcome.contrasts)
    if any(one is not None and one.together for one in pooled):
        return "Each machine, the mean of all, and the expected effect on another machine."
    return "Each machine, and all together."


def contrast_rows(outcome: OutcomeComparison, contrast: Contrast) -> Iterator[MachineRow]:
    """Yield the rows of a contrast; none if it was measured on one machine only."""
    name, arm, pooled = outcome.name, contrast.arm, contrast.pooled
    if pooled is None:
        return
    for one in pooled.machines:
        change, interval = effect_text(one.effect, outcome.unit, outcome.direction)
        yield MachineRow(name, arm, one.machine, str(one.blocks), change, interval, one.why or "")
    change, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
    if not pooled.together:
        yield MachineRow(name, arm, mean_name(pooled), "-", change, interval, contrast.why)
        return
    blocks = sum(one.blocks for one in pooled.together)
    yield MachineRow(name, arm, mean_name(pooled), str(blocks), change, interval, _heterogeneity(pooled))
    if pooled.predicted_low is not None and pooled.predicted_high is not None:
        ends = [value_log_ratio(end, outcome.direction) for end in (pooled.predicted_low, pooled.predicted_high)]
        yield MachineRow(name, arm, "one more machine", "-", "-", range_text(ends[0], ends[1]), "prediction interval")


def mean_name(pooled: Pooled) -> str:
    """Return the name of the row about all machines together."""
    count = len(pooled.together)
    return f"mean of {count} machines" if count else "all together"


def _heterogeneity(pooled: Pooled) -> str:
    if pooled.tau is None or pooled.i_squared is None:
        return ""
    spread = percent_text(pooled.tau).lstrip("+")
    return f"machines differ by {spread} (tau), {100 * pooled.i_squared:.1f} % of the scatter (I\N{SUPERSCRIPT TWO})"
