# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as text: stutters, causes beyond chance, and proposals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ktrial.judge.model.words import p_text
from ktrial.kit.tables import clean, labelled, paragraph, table
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.watch.diagnosis.devices import HEADERS, device_rows, device_sentences
from ktrial.watch.diagnosis.model import Cause, Diagnosis, Worst
from ktrial.watch.diagnosis.tables import (
    CAUSES,
    EPISODES,
    EVENTS,
    beside_rows,
    cause_rows,
    differing,
    episode_rows,
    event_rows,
    phase_cause_rows,
    range_text,
)

#: Columns of a text time line.
_STRIP = 60
#: Maximum number of episodes in the list.
SHOWN_EPISODES = 10
#: Maximum numbers of causes, proposals and active causes on one screen.
_SCREEN_CAUSES, _SCREEN_PROPOSALS, _SCREEN_ACTIVE = 3, 3, 6
#: Headers of the table of a recording without frames.
_ACTIVE = (CAUSES[0], CAUSES[5])
#: Headers of the table of aggressors.
AGGRESSORS = ("grew before stutters", "what", "in the 10 s before", "on average")

#: The note below recordings that are shown side by side.
CAUTION = (
    "Intervals come from blocks of time within each recording. Each is a single session, so the session itself may be "
    "the difference. Run a trial to find out whether a setting is the cause."
)


def screen_text(found: Diagnosis, left_out: Sequence[str] = (), *, width: int) -> str:
    """Return the diagnosis on one screen: causes, the worst example, what to try, and what the recording lacks."""
    lines = [paragraph(f"{found.name}: {_length(found.length_s)}, {_frames(found)}", width=width), ""]
    sentences = verdict_sentences(found)
    lines += [paragraph(line, width=width) for line in sentences[: 1 + _SCREEN_CAUSES]]
    more = len(sentences) - 1 - _SCREEN_CAUSES
    lines += [f"and {more} more"] if more > 0 else []
    if not found.frame_kind:
        lines.append(table(_ACTIVE, [[row[0], row[5]] for row in cause_rows(found)[:_SCREEN_ACTIVE]], width=width))
    lines += _example_lines(found, width)
    lines += _to_try_lines(found, left_out, width)
    unseen = [cause.name for cause in found.causes if cause.standing == "unseen"]
    doubts = [paragraph(f"finding: {finding}", width=width) for finding in found.findings[:_SCREEN_CAUSES]]
    if unseen:
        why = f"This recording cannot show {', '.join(unseen)}; `ktrial watch` as root records more."
        doubts.append(paragraph(why, width=width))
    return "\n".join([*lines, "", *doubts]).rstrip("\n") + "\n"


def _example_lines(found: Diagnosis, width: int) -> list[str]:
    cause = next((one for one in found.named if one.worst is not None), None)
    if cause is None or cause.worst is None:
        return []
    return ["", paragraph(clean(cause_sentences(cause)[0]), width=width), *worst_strip(cause.worst)]


def _to_try_lines(found: Diagnosis, left_out: Sequence[str], width: int) -> list[str]:
    lines = [""] if found.proposals or left_out else []
    for one in found.proposals[:_SCREEN_PROPOSALS]:
        lines.append(paragraph(f"try {one.knob}: {one.now or '?'} to {one.value} (against {one.cause})", width=width))
        lines.append(f"  {clean(shlex.join(one.try_line))}")
    more = len(found.proposals) - _SCREEN_PROPOSALS
    lines += [f"and {more} more"] if more > 0 else []
    if any(one.now is None for one in found.proposals):
        lines.append(paragraph("? could not be read: `sudo ktrial diagnose …` reads it.", width=width))
    if left_out and not found.proposals:
        lines.append(paragraph(f"not proposed: {left_out[0]}", width=width))
    return lines


def diagnosis_text(found: Diagnosis, left_out: Sequence[str] = (), *, width: int) -> str:
    lines = [paragraph(f"{found.name}: {_length(found.length_s)}, {_frames(found)}", width=width)]
    sentences = [paragraph(line, width=width) for line in verdict_sentences(found)]
    lines += ["", *sentences, *([""] if sentences else [])]
    lines += _phase_lines(found, width)
    lines += _cause_lines(found, width)
    lines += _table_lines(EVENTS, event_rows(found), width)
    lines += _episode_lines(found, width)
    lines += _table_lines(AGGRESSORS, aggressor_rows(found), width)
    lines += _device_lines(found, width)
    lines += [paragraph(f"finding: {finding}", width=width) for finding in found.findings]
    lines += [paragraph(f"note: {note}", width=width) for note in found.notes]
    lines += _proposal_lines(found, left_out, width)
    return "\n".join(lines).rstrip("\n") + "\n"


def diagnoses_text(found: Sequence[tuple[Diagnosis, Sequence[str]]], *, width: int, everything: bool = True) -> str:
    """Return all diagnoses, in full or one screen each. If there are several, also compare the recordings."""
    show = diagnosis_text if everything else screen_text
    texts = [show(one, left_out, width=width) for one, left_out in found]
    if len(found) > 1:
        headers, rows = beside_rows([one for one, _ in found])
        beside = table([clean(name) for name in headers], differing(rows), width=width)
        texts.append("\n".join(["side by side", "", beside, "", paragraph(CAUTION, width=width), ""]))
    if not everything:
        notes = sum(len(one.notes) for one, _ in found)
        hidden = f", and {notes} note{'s'[: notes != 1]} on the files" if notes else ""
        told = f"`--all` shows phases, all causes, events, episodes and devices{hidden}; `-o FILE.html` draws them."
        texts.append(f"{paragraph(told, width=width)}\n")
    return "\n".join(texts)


def _frames(found: Diagnosis) -> str:
    return f"{found.frames} {found.frame_kind}s" if found.frame_kind else "no frames"


def _length(length_s: float) -> str:
    return f"{length_s / 60:.1f} min" if length_s >= 120 else f"{length_s:.3g} s"


def verdict_sentences(found: Diagnosis) -> list[str]:
    if found.definition is None or found.late_share is None or found.per_hour is None:
        return []
    share = range_text(found.late_share, 100, "%")
    per_hour = range_text(found.per_hour, 1, "")
    many = f"{found.stutters} stutter{'s'[: found.stutters != 1]}"
    lines = [f"{many} ({found.definition}): {share} of the time was late, {per_hour} an hour"]
    for cause in found.named:
        lines.append(
            f"{cause.name}: {cause.overlapping} of {found.stutters} stutters, {cause.expected:.1f} by chance "
            f"(p {p_text(cause.p_adjusted)}). {cause.what}"
        )
    if found.stutters and not found.named:
        lines.append("No cause found: no cause that this recording can show coincides with the stutters beyond chance.")
    elif found.stutters and found.unexplained:
        words = "stutter overlaps" if found.unexplained == 1 else "stutters overlap"
        lines.append(f"{found.unexplained} {words} none of the causes above.")
    return lines


def _phase_lines(found: Diagnosis, width: int) -> list[str]:
    headers, rows = phase_rows(found)
    return [table(headers, rows, width=width), *(paragraph(line, width=width) for line in told_by(found)), ""]


def told_by(found: Diagnosis) -> list[str]:
    return [f"Derived from {', '.join(found.told_by)}."] if found.told_by else []


def phase_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            phase.name,
            f"{phase.begin_s:.0f} to {phase.end_s:.0f} s",
            *((str(phase.stutters), range_text(phase.late_share, 100, "%")) if found.frame_kind else ()),
        ]
        for phase in found.phases
    ]
    return ["phase", "time", *(("stutters", "late") if found.frame_kind else ())], rows


def _cause_lines(found: Diagnosis, width: int) -> list[str]:
    rows = cause_rows(found)
    lines = []
    if rows:
        shown = range(len(CAUSES)) if found.frame_kind else (0, 5)
        lines += [table([CAUSES[at] for at in shown], [[row[at] for at in shown] for row in rows], width=width)]
    for cause in found.causes:
        lines += [paragraph(clean(line), width=width) for line in cause_sentences(cause)]
        lines += [] if cause.worst is None else worst_strip(cause.worst)
    headers, by_phase = phase_cause_rows(found)
    lines += ["", table(headers, by_phase, width=width)] if by_phase else []
    lines += [labelled(label, names, width=width, label_columns=19) for label, names in not_at_work(found)]
    return [*lines, ""]


def cause_sentences(cause: Cause) -> list[str]:
    lines = []
    if cause.worst is not None:
        took, at_s = show_seconds(cause.worst.duration_s), cause.worst.begin_s
        lines.append(f"Worst of {cause.name}: {took} at {at_s:.1f} s ({cause.worst.seen}).")
    if cause.threads:
        threads = ", ".join(f"{name} {count}" for name, count in cause.threads.items())
        lines.append(f"Threads hit: {threads}.")
    return lines


def worst_strip(worst: Worst) -> list[str]:
    """Return the worst stutter and the cause's activity around it, as two lines on one axis."""
    begin_s, end_s = worst.begin_s, worst.begin_s + worst.duration_s
    first_s, last_s = max(0.0, begin_s - worst.duration_s), end_s + worst.duration_s
    step_s = (last_s - first_s) / _STRIP
    moments = [first_s + step_s * place for place in range(_STRIP)]

    def strip(spans: Sequence[tuple[float, float]]) -> str:
        return "".join("#" if any(a <= at + step_s and b >= at for a, b in spans) else "." for at in moments)

    return [f"  late     {strip([(begin_s, end_s)])}", f"  active   {strip(worst.spans)}"]


def not_at_work(found: Diagnosis) -> list[tuple[str, str]]:
    """Return the names of causes that were never active, and of causes that the recording cannot show."""
    labels = (("idle", "never active"), ("unseen", "could not be seen"))
    named = [(label, [cause.name for cause in found.causes if cause.standing == one]) for one, label in labels]
    return [(label, ", ".join(names)) for label, names in named if names]


def _table_lines(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    return [table(headers, [[clean(cell) for cell in row] for row in rows], width=width), ""] if rows else []


def _episode_lines(found: Diagnosis, width: int) -> list[str]:
    lines = [paragraph(line, width=width) for line in episode_sentences(found)]
    return [*lines, table(EPISODES, episode_rows(found, SHOWN_EPISODES), width=width), ""] if lines else []


def episode_sentences(found: Diagnosis) -> list[str]:
    """Return sentences that say how many episodes there are, and how regularly they recur."""
    if not found.episodes:
        return []
    count = len(found.episodes)
    fullest = f"; the {SHOWN_EPISODES} fullest" if count > SHOWN_EPISODES else ""
    lines = [f"{count} episode{'s' if count > 1 else ''} of stutters{fullest}:"]
    if found.recurrence_s is not None and found.recurrence_p is not None:
        even = "more regularly than by chance" if found.recurrence_p < 0.05 else "no more regularly than by chance"
        lines.insert(
            0, f"Episodes begin every {show_seconds(found.recurrence_s)}, {even} (p {p_text(found.recurrence_p)})."
        )
    return lines


def aggressor_rows(found: Diagnosis) -> list[list[str]]:
    return [[one.name, one.what, show_bytes(one.before_bytes), show_bytes(one.usual_bytes)] for one in found.aggressors]


def _device_lines(found: Diagnosis, width: int) -> list[str]:
    if not found.devices:
        return []
    told = [paragraph(line, width=width) for line in device_sentences(found.devices)]
    return [table(list(HEADERS), device_rows(found.devices), width=width), *told, ""]


def _proposal_lines(found: Diagnosis, left_out: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    if found.proposals:
        lines += ["", "Proposals (ktrial applies none of them):"]
    for one in found.proposals:
        lines += ["", paragraph(f"{one.knob}: {one.now or '?'} to {one.value}", width=width)]
        lines += [labelled("  why", one.why, width=width), labelled("  price", one.price, width=width)]
        lines += [labelled("  evidence", claim, width=width) for claim in one.evidence or ("none",)]
        lines.append(f"  {clean(shlex.join(one.try_line))}")
    if left_out:
        lines += ["", *(paragraph(f"not proposed: {reason}", width=width) for reason in left_out)]
    return lines
