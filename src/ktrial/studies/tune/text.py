# SPDX-License-Identifier: Apache-2.0
"""Shows the receipt of a tuning as text."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.judge.model.words import percent_text, range_text, value_log_ratio
from ktrial.kit.tables import paragraph, table
from ktrial.studies.tune.model import Tried, TuneQuestion, TuneReceipt


def receipt_text(receipt: TuneReceipt, *, width: int) -> str:
    kept = [one for one in receipt.tried if one.kept]
    refused = [one for one in receipt.tried if not one.kept]
    lines = []
    for title, some in (("kept", kept), ("refused", refused)):
        if some:
            lines += [
                f"{title}:",
                table(("setting", "change", "interval", "why"), [_row(one) for one in some], width=width),
                "",
            ]
    if not kept:
        lines += ["Nothing is kept: no candidate was shown to be better.", ""]
    elif receipt.transaction is None:
        settings = " ".join(f"{address}={value}" for address, value in receipt.kept.items())
        lines += [f"Not applied yet. To apply:  ktrial apply {settings}", ""]
    else:
        lines += [f"Applied as transaction {receipt.transaction}, until it is reverted or the machine reboots.", ""]
        lines += [f"undo: {receipt.undo}", ""]
    lines.append(paragraph(f"{receipt.runs} runs in {', '.join(receipt.trials) or 'no trial'}", width=width))
    return "\n".join(lines) + "\n"


def _row(one: Tried) -> tuple[str, str, str, str]:
    settings = ", ".join(f"{address}={value}" for address, value in one.settings.items())
    effect = one.effect
    if effect is None or effect.scale != "log":
        return settings, "-", "-", one.reason
    change = percent_text(value_log_ratio(effect.estimate, one.direction))
    if effect.low is None or effect.high is None:
        return settings, change, "-", one.reason
    ends = (value_log_ratio(end, one.direction) for end in (effect.low, effect.high))
    return settings, change, range_text(*ends), one.reason


def tune_text(question: TuneQuestion, left_out: Mapping[str, str], *, width: int) -> str:
    count = question.candidates
    candidates, trials = f"candidate{'s'[: count != 1]}", f"trial{'s'[: len(question.groups) != 1]}"
    lines = [f"{question.name}: {count} {candidates} in {len(question.groups)} {trials}"]
    for group in question.groups:
        settings = ", ".join(f"{name}={value}" for arm in group.arms for name, value in arm.settings.items())
        what = group.trial.suite or " ".join(group.trial.command)
        text = f"measured by {group.trial.primary or 'the headline'} of {what}: {settings}"
        lines.append(paragraph(text, width=width, indent="  "))
    lines += [paragraph(f"skipped: {name}: {why}", width=width, indent="  ") for name, why in left_out.items()]
    return "\n".join(lines) + "\n"
