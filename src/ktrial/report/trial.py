# SPDX-License-Identifier: Apache-2.0
"""A trial while it goes on, as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ktrial.domain.effect_words import percent_text
from ktrial.domain.judgement import Judged, Judgement
from ktrial.domain.stored_trial import ArmSettings, TrialSummary
from ktrial.domain.trial_log import Protocol
from ktrial.report.blame import screening_line
from ktrial.report.terminal import labelled, paragraph, table


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
        said = ", ".join(f"{name} = {value}" for name, value in arms[arm.name].changes.items())
        said = said or ", ".join(f"{name}={value}" for name, value in arms[arm.name].environment.items())
        told = "changes nothing: a placebo" if arm.placebo else "as it is found"
        lines.append(labelled(f"  {arm.name}", said or told, width=width, label_columns=24))
    lines += [paragraph(f"{name}: what it sets is in force already, so it is a placebo", width=width) for name in idle]
    cap = f"at most {protocol.cap} blocks" if protocol.cap is not None else f"at most {protocol.budget} blocks"
    lines.append(
        f"{cap} of {len(protocol.arms)} visits in random order, seed {protocol.seed}; {settle_s:g} s to settle"
    )
    return "\n".join(lines) + "\n"


def block_line(judgement: Judgement, *, width: int) -> str:
    """How far the trial has come: the interval of every arm against the margin."""
    if judgement.screened:
        return paragraph(screening_line(judgement.blocks, judgement.cap, judgement.screened), width=width) + "\n"
    cap = judgement.cap or "?"
    head = f"block {judgement.blocks}/{cap}"
    parts = [_arm(one) for one in judgement.judged if one.role == "primary"]
    return paragraph(f"{head}: {'; '.join(parts)}", width=width) + "\n"


def _arm(one: Judged) -> str:
    if one.verdict is not None:
        return f"{one.arm} {one.verdict}"
    if one.effect is None or one.effect.low is None or one.effect.high is None:
        return f"{one.arm} open"
    return f"{one.arm} {percent_text(one.effect.low)} to {percent_text(one.effect.high)}"


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
