# SPDX-License-Identifier: Apache-2.0
"""Shows verdicts of others, always apart from this machine's own."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import labelled, paragraph
from ktrial.studies.ledger.model import LedgerEntry
from ktrial.studies.ledger.others import Likeness, OthersVerdict
from ktrial.studies.ledger.text import date_of, effect_words, markdown_cell

TITLE = "tried elsewhere (other machines: no evidence about this one)"
_LABEL = 18
_HEADERS = ("date", "tried", "outcome", "verdict", "change", "trial", "by", "machine")


def others_lines(verdicts: Sequence[OthersVerdict], *, width: int, shown: int = 6) -> list[str]:
    """Return at most `shown` verdicts of others as lines with a title. Return nothing if there are no verdicts."""
    if not verdicts:
        return []
    lines = ["", TITLE]
    for one in verdicts[:shown]:
        entry = one.entry
        where = f"kernel {entry.kernel or '?'}, {entry.scope}, against {entry.control}"
        text = f"{entry.what} in {entry.outcome} ({entry.workload.partition(' ')[0]}): {effect_words(entry)} "
        text += f"[{date_of(entry)}, {entry.trial}; {where}; {by_whom(one)}]"
        lines.append(labelled(f"  {verdict_words(entry)}", text, width=width, label_columns=_LABEL))
        lines.append(labelled("", f"{likeness_words(one.likeness)}.", width=width, label_columns=_LABEL))
    if len(verdicts) > shown:
        lines.append(paragraph(f"and {len(verdicts) - shown} more: `ktrial ledger`", width=width, indent=" " * _LABEL))
    return lines


def others_markdown(verdicts: Sequence[OthersVerdict]) -> str:
    """Return a title and a Markdown table of the verdicts of others; an empty text if there are no verdicts."""
    if not verdicts:
        return ""
    lines = ["", f"## {TITLE.capitalize()}", "", f"| {' | '.join(_HEADERS)} |", "|" + " --- |" * len(_HEADERS)]
    for one in verdicts:
        entry = one.entry
        cells = (date_of(entry), entry.what, entry.outcome, verdict_words(entry), effect_words(entry), entry.trial)
        row = (*cells, by_whom(one), likeness_words(one.likeness))
        lines.append(f"| {' | '.join(map(markdown_cell, row))} |")
    return "\n".join(lines) + "\n"


def short_line(one: OthersVerdict) -> str:
    """Return verdict, date, author and similarity in one line."""
    told = f"{verdict_words(one.entry)} on {date_of(one.entry)}: {one.entry.trial} ({by_whom(one)})"
    return f"{told}. {likeness_words(one.likeness)}"


def by_whom(one: OthersVerdict) -> str:
    return f"unsigned, from {one.bundle}" if one.signer is None else f"signed by {one.signer}"


def verdict_words(entry: LedgerEntry) -> str:
    doubt = "" if entry.superseded_by is None else " (refuted)" if entry.refuted else " (superseded)"
    return f"{entry.verdict}{doubt}"


def likeness_words(found: Likeness) -> str:
    """Return what is the same on both machines, what differs, and what is unknown."""
    parts = [("same", found.same), ("differs", found.differs), ("unknown", found.unknown)]
    text = "; ".join(f"{name}: {', '.join(words)}" for name, words in parts if words)
    return text[:1].upper() + text[1:]
