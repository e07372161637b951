# SPDX-License-Identifier: Apache-2.0
"""What a report's page tells of a trial beside its figures: what each arm came to, the placebo, voids, the protocol."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldTrial
from ktrial.judge.model.words import effect_text
from ktrial.kit.html_tags import Markup, Part, render, tag
from ktrial.reports.page.tables import arms_table, table
from ktrial.reports.trial_sentences import came_to_rows, course_sentences, placebo_sentences


def arms_parts(trial: ToldTrial, comparison: Comparison) -> list[Part]:
    """What each arm came to on the machine, and whether the placebo showed anything."""
    rows = [
        (arm, *(_joined("<br>", lines) for lines in told)) for arm, *told in came_to_rows(trial, comparison.control)
    ]
    headers = ("arm", "sets", "in force already", "left out, and why")
    parts: list[Part] = [table("What each arm came to here", headers, rows, long=(1, 2, 3), stack=True)]
    return [*parts, *(tag("p", sentence) for sentence in placebo_sentences(comparison))]


def _joined(between: str, told: Sequence[str]) -> Markup:
    """Foreign text, with this markup between its lines."""
    return Markup(between.join(map(render, told)))


def course_parts(trial: ToldTrial, comparison: Comparison) -> list[Part]:
    """How many blocks there were and why it ended; every block that does not count."""
    parts: list[Part] = [tag("p", sentence) for sentence in course_sentences(comparison, trial)]
    rows = [(str(one.block), ", ".join(one.order), one.void) for one in trial.drawn if one.void is not None]
    if rows:
        parts.append(
            table("Void blocks, which count nowhere", ("block", "order", "why"), rows, numeric=(0,), long=(2,))
        )
    return parts


def explored_parts(outcomes: Sequence[OutcomeComparison]) -> list[Part]:
    """Outcomes that the protocol did not ask for: figures, and no verdict."""
    rows = []
    for outcome in outcomes:
        for one in outcome.contrasts:
            estimate, interval = effect_text(one.effect, outcome.unit, outcome.direction)
            rows.append((outcome.name, one.arm, estimate, interval, str(one.n_arm), one.why))
    if not rows:
        return []
    headers = ("outcome", "arm", "change", "interval", "n", "what is known")
    told = (
        "The protocol did not ask for these, so no verdict is given on them: what stands out here is for a new trial."
    )
    figures = [part for outcome in outcomes for part in (tag("h4", outcome.name), arms_table(outcome, None))]
    return [
        tag("p", told),
        table("Explored outcomes", headers, rows, numeric=(2, 3, 4), long=(5,), stack=True),
        tag("details", tag("summary", "Values of each arm in these outcomes"), figures),
    ]


def protocol_parts(trial: ToldTrial, sha256: str | None) -> list[Part]:
    """The protocol as a file that runs the like again."""
    parts: list[Part] = [
        tag("h3", "Protocol, fixed before the first run"),
        tag("pre", tag("code", _joined("\n", trial.text.split("\n"))), tabindex=0),
    ]
    if sha256 is not None:
        told = " is the SHA-256 of it, of what the judge goes by and of what the arms came to; every run bears it."
        parts.append(tag("p", tag("code", sha256), told))
    return parts
