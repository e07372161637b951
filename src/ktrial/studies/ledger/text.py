# SPDX-License-Identifier: Apache-2.0
"""Shows the ledger as a table and as Markdown, and one knob's entries for `ktrial explain`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ktrial.judge.model.words import percent_text, range_text, value_log_ratio
from ktrial.kit.tables import clean, labelled, paragraph, table
from ktrial.studies.ledger.model import LedgerEntry, Now, changed_since, standing

_HEADERS = ("date", "tried", "outcome", "verdict", "change", "interval", "now", "trial")
_SHOWN = 6
#: Minimum width at which the table is readable.
_WIDE = 120
_DATE, _VERDICT = 12, 18


def ledger_text(entries: Sequence[LedgerEntry], now: Now, *, width: int) -> str:
    if not entries:
        return "No trials on this machine yet. Start one, for example: ktrial try vm.swappiness=10\n"
    rows = [_row(entry, now) for entry in entries]
    if width >= _WIDE:
        return table(_HEADERS, rows, width=width, whole=1) + f"\n\n{_legend()}\n"
    lines = [line for row in rows for line in _stacked(row, width)]
    return "\n".join([*lines, "", paragraph(_legend(), width=width)]) + "\n"


def _stacked(row: Sequence[str], width: int) -> Iterator[str]:
    """Yield a row as lines, for a terminal too narrow for the table."""
    date, tried, outcome, verdict, change, interval, standing_now, trial = row
    yield labelled(date, f"{verdict}: {tried}", width=width, label_columns=_DATE)
    yield labelled(
        "", f"{outcome} {_effect_words(change, interval)}; {standing_now}; {trial}", width=width, label_columns=_DATE
    )


def ledger_markdown(entries: Sequence[LedgerEntry], now: Now) -> str:
    lines = ["# Ledger", "", f"| {' | '.join(_HEADERS)} |", "|" + " --- |" * len(_HEADERS)]
    lines += [f"| {' | '.join(markdown_cell(text) for text in _row(entry, now))} |" for entry in entries]
    return "\n".join([*lines, "", _legend()]) + "\n"


def measured_lines(entries: Sequence[LedgerEntry], now: Now, *, width: int) -> list[str]:
    if not entries:
        return []
    lines = ["", "measured here"]
    for entry in entries[:_SHOWN]:
        where = f"kernel {entry.kernel or '?'}, {entry.scope}, against {entry.control}"
        label = f"  {entry.verdict or 'open'}"
        text = f"{entry.what} in {entry.outcome} ({entry.workload.partition(' ')[0]}): "
        text += f"{_effect_words(*_change(entry))} [{date_of(entry)}, {entry.trial}; {where}]"
        lines.append(labelled(label, text, width=width, label_columns=_VERDICT))
        lines += [labelled("", doubt, width=width, label_columns=_VERDICT) for doubt in _doubts(entry, now)]
    if len(entries) > _SHOWN:
        lines.append(
            labelled("", f"and {len(entries) - _SHOWN} more: `ktrial ledger`", width=width, label_columns=_VERDICT)
        )
    return lines


def _doubts(entry: LedgerEntry, now: Now) -> list[str]:
    found = []
    if entry.superseded_by is not None:
        found.append(f"{'Refuted' if entry.refuted else 'Superseded'} by {entry.superseded_by}.")
    changed = changed_since(entry, now)
    if changed and entry.superseded_by is None:
        found.append(f"Measured under other conditions: {'; '.join(changed)}. Repeat: `ktrial retest {entry.trial}`")
    return found


def _row(entry: LedgerEntry, now: Now) -> tuple[str, ...]:
    verdict: str = entry.verdict or ("open" if entry.blocks else "queued")
    if entry.superseded_by is not None:
        verdict += " (refuted)" if entry.refuted else " (superseded)"
    elif changed_since(entry, now):
        verdict += " (outdated)"
    return (date_of(entry), entry.what, entry.outcome, verdict, *_change(entry), standing(entry, now), entry.trial)


def _change(entry: LedgerEntry) -> tuple[str, str]:
    """Return estimate and interval, as changes of the value, not of the score."""
    effect = entry.effect
    if effect is None:
        return "-", "-"
    if effect.scale == "difference":
        return f"{value_log_ratio(effect.estimate, entry.direction):+.3g}", "-"
    estimate = percent_text(value_log_ratio(effect.estimate, entry.direction))
    if effect.low is None or effect.high is None:
        return estimate, "-"
    return estimate, range_text(*(value_log_ratio(end, entry.direction) for end in (effect.low, effect.high)))


def _effect_words(change: str, interval: str) -> str:
    return "no estimate" if change == "-" else f"{change} ({interval})" if interval != "-" else change


def effect_words(entry: LedgerEntry) -> str:
    """Return the change of the value with its interval, or `no estimate`."""
    return _effect_words(*_change(entry))


def verdict_sentence(entry: LedgerEntry) -> str:
    """Return one line with the reason to keep a setting: its verdict, effect, scope, kernel, trial and date."""
    others = len(entry.changes) + len(entry.environment) - 1
    change, interval = _change(entry)
    if entry.effect is not None and interval != "-":
        change += f" ({100 * entry.effect.confidence:.3g} % interval {interval})"
    parts = [
        f"{entry.outcome} ({entry.workload.partition(' ')[0]}) {'no estimate' if change == '-' else change}",
        f"n = {entry.blocks} blocks",
        f"{entry.scope} against {entry.control}",
        *([f"Linux {entry.kernel}"] if entry.kernel is not None else []),
        f"trial {entry.trial}/{entry.arm}",
        date_of(entry),
    ]
    together = f", together with {others} more" if others > 0 else ""
    doubt = f"; {'refuted' if entry.refuted else 'superseded'} by {entry.superseded_by}" if entry.superseded_by else ""
    price = f"; worse in {' and '.join(entry.worse)}" if entry.worse else ""
    return f"{entry.verdict or 'undecided'}{together}: {', '.join(parts)}{price}{doubt}"


def date_of(entry: LedgerEntry) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(entry.started_unix_ms / 1000))


def markdown_cell(text: str) -> str:
    return clean(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _legend() -> str:
    return "kept: in force now; refused: not shown to be better; not applied: better, but not in force."
