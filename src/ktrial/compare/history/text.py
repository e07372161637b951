# SPDX-License-Identifier: Apache-2.0
"""An outcome over time, as text."""

from __future__ import annotations

from ktrial.bench.numbers import column
from ktrial.compare.history.model import Differs, History, LevelChange
from ktrial.judge.model.words import effect_phrase, interval_phrase, p_text
from ktrial.kit.tables import labelled, paragraph, table
from ktrial.results.text import moment

_BAR = 16
_WAY = {"lower": "less is better", "higher": "more is better", None: "the better direction is unknown"}
_LONGEST = 60


def history_text(found: History, *, width: int) -> str:
    """Return a table of the moments, with each median also drawn as a dot, then the changes."""
    medians = [one.median for one in found.moments]
    shown = column(medians, found.unit)
    low, high = min(medians), max(medians)
    begins = {change.place: f"<- {number}" for number, change in enumerate(found.changes, 1)}
    rows = [
        [
            moment(one.started_unix_ms),
            one.name if found.by == "kernel" else one.known.get("kernel", "?"),
            str(one.runs),
            shown.show(one.median),
            _bar(one.median, low, high),
            *([begins.get(place, "")] if begins else []),
        ]
        for place, one in enumerate(found.moments, 1)
    ]
    headers = ["when (UTC)", "kernel", "runs", f"median, {shown.unit}", f"{shown.show(low)} to {shown.show(high)}"]
    headers += ["change"] if begins else []
    lines = [paragraph(f"{found.outcome}: {_WAY[found.direction]}", width=width), ""]
    lines += [table(headers, rows, width=width), ""]
    for number, change in enumerate(found.changes, 1):
        lines += [*_change(found, number, change, width), ""]
    if not found.changes:
        lines += ["no change of level found", ""]
    lines += [paragraph(note, width=width) for note in found.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def _bar(value: float, low: float, high: float) -> str:
    place = round((value - low) / (high - low) * (_BAR - 1)) if high > low else 0
    return "\N{MIDDLE DOT}" * place + "\N{BLACK CIRCLE}" + "\N{MIDDLE DOT}" * (_BAR - 1 - place)


def _change(found: History, number: int, change: LevelChange, width: int) -> list[str]:
    interval = interval_phrase(change.effect, found.unit, found.direction)
    effect = ", ".join(filter(None, (effect_phrase(change.effect, found.unit, found.direction), interval)))
    counted = f"from {change.name} on; {change.before} moments before, {change.after} after, p = {p_text(change.p)}"
    told = "; ".join(map(_differing, change.differs)) or "nothing that the sessions record"
    return [
        labelled(f"change {number}", f"{_verdict_of_change(found, change)}: {effect}", width=width),
        labelled("", counted, width=width),
        labelled("differs", told, width=width),
    ]


def _verdict_of_change(found: History, change: LevelChange) -> str:
    if found.direction is None:
        return "another level"
    return "better" if change.effect.estimate > 0 else "worse"


def _differing(one: Differs) -> str:
    return f"{one.name} {_short(one.before)} -> {_short(one.after)}"


def _short(text: str | None) -> str:
    if text is None:
        return "(unknown)"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
