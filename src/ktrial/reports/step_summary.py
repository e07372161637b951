# SPDX-License-Identifier: Apache-2.0
"""A comparison in the few lines that a build server shows beside a step."""

from __future__ import annotations

from ktrial.judge.model.comparison import Comparison
from ktrial.reports.markdown import arms_table, escaped, findings_list, notice_list, tier_table, verdict_table
from ktrial.reports.order import asked_only


def step_summary(comparison: Comparison) -> str:
    """The answer, what one would notice, the verdicts, the figures of each arm, and the doubts."""
    comparison = asked_only(comparison)
    found = findings_list(comparison)
    parts = [
        f"### {escaped(comparison.title)}",
        f"**{escaped(comparison.answer)}**",
        f"Scope: {escaped(comparison.scope)}.",
        notice_list(comparison),
        verdict_table(comparison),
        *([tiers] if (tiers := tier_table(comparison)) else []),
        *(f"{escaped(one.name)}:\n\n{arms_table(one)}" for one in comparison.outcomes),
        *([f"Findings:\n\n{found}"] if found else []),
    ]
    return "\n\n".join(parts) + "\n"
