# SPDX-License-Identifier: Apache-2.0
"""Rows of tables: a protocol, and tiers that build on each other, each against the one before it and the control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_text
from ktrial.reports.order import by_weight


def protocol_rows(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each value under its place in the document, as `design.cap`."""
    return list(_rows(protocol, ""))


def _rows(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _rows(value, f"{above}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{above}{name}", ", ".join(map(str, value))
        else:
            yield f"{above}{name}", "-" if value is None or value == {} else str(value)


class TierRow(NamedTuple):
    """One tier in one outcome; changes are in the words of all reports. `total` may be missing."""

    outcome: str
    tier: str
    against: str
    step: str
    interval: str
    verdict: Verdict
    why: str
    total: str
    total_interval: str
    total_verdict: Verdict | None


def tier_rows(comparison: Comparison) -> list[TierRow]:
    """All tiers of all outcomes; none of a comparison without tiers."""
    return [
        _row(outcome, step, next((one for one in outcome.contrasts if one.arm == step.arm), None))
        for outcome in by_weight(comparison.outcomes)
        for step in outcome.steps
    ]


def pair_name(contrast: Contrast, outcome: OutcomeComparison) -> str:
    """The arm, with what it is against where that is not the control."""
    return contrast.arm if contrast in outcome.contrasts else f"{contrast.arm} to {contrast.control}"


def _row(outcome: OutcomeComparison, step: Contrast, total: Contrast | None) -> TierRow:
    change, interval = effect_text(step.effect, outcome.unit, outcome.direction)
    whole = ("-", "-") if total is None else effect_text(total.effect, outcome.unit, outcome.direction)
    verdict = None if total is None else total.verdict
    return TierRow(outcome.name, step.arm, step.control, change, interval, step.verdict, step.why, *whole, verdict)
