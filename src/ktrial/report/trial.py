# SPDX-License-Identifier: Apache-2.0
"""A trial while it goes on, as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ktrial.domain.judgement import Judged, Judgement
from ktrial.domain.stored_trial import ArmSettings, TrialSummary
from ktrial.domain.trial_log import OutcomeRule, Protocol
from ktrial.report.blame import screening_line
from ktrial.report.terminal import clean, labelled, paragraph, table
from ktrial.report.trial_view import effect_figures


def announcement(
    protocol: Protocol, arms: Mapping[str, ArmSettings], idle: Sequence[str], settle_s: float, *, width: int
) -> str:
    """What is about to be done."""
    rule = protocol.outcomes[protocol.primary]
    if protocol.screen is not None:
        told = f"{protocol.name}: which of {len(protocol.screen.settings)} settings is it? {protocol.primary}"
        return f"{told}, at most {protocol.cap} blocks of 2 visits, seed {protocol.seed}; {settle_s:g} s to settle\n"
    lines = [f"trial {protocol.name}: {protocol.primary}, {rule.direction} is better, margin {100 * rule.margin:g} %"]
    for arm in protocol.arms:
        settings = arms[arm.name]
        by_hand = {} if settings.manual is None else {"by hand": settings.manual}
        changed = {**by_hand, **settings.changes, **settings.environment, **settings.parameters}
        said = ", ".join(f"{name} = {value}" for name, value in changed.items())
        said = "the control again: a placebo" if arm.placebo else said or "as it is found"
        lines.append(labelled(f"  {arm.name}", said, width=width, label_columns=24))
    lines += [paragraph(f"{name}: what it sets is in force already, so it is a placebo", width=width) for name in idle]
    cap = f"at most {protocol.cap} blocks" if protocol.cap is not None else f"at most {protocol.budget} blocks"
    visits = "boots" if protocol.replicate == "boot" else "visits"
    lines.append(
        f"{cap} of {len(protocol.arms)} {visits} in random order, seed {protocol.seed}; {settle_s:g} s to settle"
    )
    return "\n".join(lines) + "\n"


def block_line(protocol: Protocol, judgement: Judgement) -> str:
    """How far the trial has come, in one line: of every arm the verdict and the interval of the measured value."""
    if judgement.screened:
        return f"{screening_line(judgement.blocks, judgement.cap, judgement.screened)}\n"
    cap = judgement.cap or f"at most {protocol.budget}"
    rule = protocol.outcomes[protocol.primary]
    parts = [_arm(one, rule, protocol.control) for one in judgement.judged if one.role == "primary"]
    return clean(f"block {judgement.blocks}/{cap}: {'; '.join(parts)}") + "\n"


def _arm(one: Judged, rule: OutcomeRule, control: str) -> str:
    name = one.arm if one.against == control else f"{one.arm} to {one.against}"
    figures = "" if one.effect is None else f" ({effect_figures(one.effect, rule)})"
    return f"{name} {one.verdict or 'open'}{figures}"


def trials_text(found: Sequence[TrialSummary], *, width: int) -> str:
    """All trials, a line each."""
    if not found:
        return "No trial was made here yet. `ktrial try vm.swappiness=10` makes one.\n"
    rows = [
        (
            one.trial,
            time.strftime("%Y-%m-%d", time.gmtime(one.started_unix_ms / 1000)),
            one.primary,
            str(one.blocks),
            ", ".join(f"{arm}: {verdict or 'open'}" for arm, verdict in one.verdicts.items())
            + (f"suspected: {', '.join(one.suspected)}" if one.suspected else "")
            + ("" if one.ended is not None else " (not over)"),
        )
        for one in found
    ]
    return table(("trial", "date", "primary", "blocks", "verdicts"), rows, width=width, whole=1) + "\n"
