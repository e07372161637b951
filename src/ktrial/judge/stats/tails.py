# SPDX-License-Identifier: Apache-2.0
"""Percentiles of a trial whose tail holds too few events: doubts, and primary outcomes that cannot decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrial.judge.collect_log import Trial
from ktrial.kit.finding import Finding
from ktrial.kit.percentile import FEW_EVENTS, counted, events_needed, longer, typical_events


def rests_on_few(trial: Trial, outcome: str, arms: Sequence[str]) -> bool:
    """Whether the typical run of one of these arms has too few events beyond a percentile for it to decide."""
    quantile = trial.protocol.outcomes[outcome].quantile
    events = typical_events(_events(trial, outcome, arm) for arm in arms)
    return quantile is not None and events is not None and events < events_needed(quantile)


def few_events(trial: Trial) -> Iterator[Finding]:
    """Percentiles of which any run has too few events."""
    for outcome, rule in trial.protocol.outcomes.items():
        if rule.quantile is None:
            continue
        events = min((run.events[outcome] for run in trial.runs if outcome in run.events), default=None)
        if events is not None and events < events_needed(rule.quantile):
            sentence = f"{outcome}: {counted(events, rule.quantile)} for so far a percentile: "
            yield Finding(
                kind=FEW_EVENTS,
                level="suspect",
                sentence=sentence + longer(events, rule.quantile),
                values={"events": float(events), "needed": float(events_needed(rule.quantile))},
            )


def _events(trial: Trial, outcome: str, arm: str) -> list[int]:
    return [run.events[outcome] for run in trial.runs if run.arm == arm and outcome in run.events]
