# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as text: what was late, why beyond chance, and what could be tried."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ktrial.domain.diagnosis import Cause, Diagnosis, Range
from ktrial.domain.units import show_bytes, show_seconds
from ktrial.report.diagnose_devices import HEADERS, device_rows, device_sentences
from ktrial.report.terminal import clean, labelled, paragraph, table
from ktrial.report.words import p_text

_EPISODES = 5
#: What stands above those who grew before stutters.
AGGRESSORS = ("grew before stutters", "", "in the 10 s before", "in any 10 s")


def diagnosis_text(found: Diagnosis, left_out: Sequence[str] = (), *, width: int) -> str:
    """Everything for a terminal, the verdict first."""
    lines = [paragraph(f"{found.name}: {_length(found.length_s)}, {_frames(found)}", width=width)]
    sentences = [paragraph(line, width=width) for line in verdict_sentences(found)]
    lines += ["", *sentences, *([""] if sentences else [])]
    lines += _phase_lines(found, width)
    lines += _cause_lines(found, width)
    lines += _episode_lines(found, width)
    lines += _aggressor_lines(found, width)
    lines += _device_lines(found, width)
    lines += [paragraph(f"finding: {finding}", width=width) for finding in found.findings]
    lines += [paragraph(f"note: {note}", width=width) for note in found.notes]
    lines += _proposal_lines(found, left_out, width)
    return "\n".join(lines).rstrip("\n") + "\n"


def _frames(found: Diagnosis) -> str:
    return f"{found.frames} {found.frame_kind}s" if found.frame_kind else "no frames"


def _length(length_s: float) -> str:
    return f"{length_s / 60:.1f} min" if length_s >= 120 else f"{length_s:.3g} s"


def verdict_sentences(found: Diagnosis) -> list[str]:
    """What was late, and what is named for it."""
    if found.definition is None or found.late_share is None or found.per_hour is None:
        return []
    share = range_text(found.late_share, 100, "%")
    per_hour = range_text(found.per_hour, 1, "")
    lines = [f"{found.stutters} stutters ({found.definition}): {share} of the time was late, {per_hour} an hour"]
    for cause in found.named:
        lines.append(
            f"{cause.name}: {cause.overlapping} of {found.stutters} stutters, {cause.expected:.1f} by chance "
            f"(p {p_text(cause.p_adjusted)}). {cause.what}"
        )
    if found.stutters and not found.named:
        lines.append("None of these: no cause that this recording can show falls together with them beyond chance.")
    elif found.stutters and found.unexplained:
        lines.append(f"{found.unexplained} stutters overlap none of the named.")
    return lines


def range_text(one: Range, factor: float, unit: str) -> str:
    """An estimate with its interval, where there is one."""
    sign = f" {unit}" if unit else ""
    if one.low is None or one.high is None:
        return f"{one.estimate * factor:.3g}{sign}"
    return f"{one.estimate * factor:.3g}{sign} ({one.low * factor:.3g} to {one.high * factor:.3g})"


def _phase_lines(found: Diagnosis, width: int) -> list[str]:
    headers, rows = phase_rows(found)
    return [table(headers, rows, width=width), *(paragraph(line, width=width) for line in told_by(found)), ""]


def told_by(found: Diagnosis) -> list[str]:
    """By what the phases were told apart."""
    return [f"Told by {', '.join(found.told_by)}."] if found.told_by else []


def phase_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Headers, and a row for each phase."""
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
    rows = []
    for cause in found.causes:
        if cause.standing in {"idle", "unseen"}:
            continue
        tested = cause.p is not None
        rows.append(
            [
                cause.name,
                str(cause.overlapping) if tested else "-",
                f"{cause.expected:.1f}" if tested else "-",
                p_text(cause.p_adjusted),
                f"{cause.active_share:.1%}",
                standing_words(cause, found),
            ]
        )
    lines = []
    if rows:
        headers = ["cause", "stutters", "by chance", "p", "at work", "named"]
        shown = [0, 1, 2, 3, 4, 5] if found.frame_kind else [0, 4]
        lines += [table([headers[at] for at in shown], [[row[at] for at in shown] for row in rows], width=width)]
    lines += [paragraph(clean(line), width=width) for cause in found.named for line in cause_sentences(cause)]
    lines += [labelled(label, names, width=width, label_columns=19) for label, names in not_at_work(found)]
    return [*lines, ""]


def cause_sentences(cause: Cause) -> list[str]:
    """The worst stutter of it, and whom it hit."""
    lines = []
    if cause.worst is not None:
        took, at_s = show_seconds(cause.worst.duration_s), cause.worst.begin_s
        lines.append(f"Worst of {cause.name}: {took} at {at_s:.1f} s ({cause.worst.seen}).")
    if cause.threads:
        threads = ", ".join(f"{name} {count}" for name, count in cause.threads.items())
        lines.append(f"Threads hit: {threads}.")
    return lines


def not_at_work(found: Diagnosis) -> list[tuple[str, str]]:
    """What was looked for and never there, and what nothing in the recording shows."""
    labels = (("idle", "never at work"), ("unseen", "could not be seen"))
    named = [(label, [cause.name for cause in found.causes if cause.standing == one]) for one, label in labels]
    return [(label, ", ".join(names)) for label, names in named if names]


def standing_words(cause: Cause, found: Diagnosis) -> str:
    """Whether it is named, and what it goes with where it is not."""
    if cause.standing == "named":
        return "yes"
    if cause.standing == "with-another":
        other = next((one.name for one in found.causes if one.id == cause.with_cause), cause.with_cause or "")
        return f"no: goes with {other}"
    return "no" if cause.p is not None else "-"


def _episode_lines(found: Diagnosis, width: int) -> list[str]:
    lines = episode_sentences(found)
    return [*(paragraph(line, width=width) for line in lines), ""] if lines else []


def episode_sentences(found: Diagnosis) -> list[str]:
    """When stutters came close together, and how evenly."""
    if not found.episodes:
        return []
    longest = sorted(found.episodes, key=lambda one: -one.count)[:_EPISODES]
    told = ", ".join(f"{one.count} at {one.begin_s:.0f} s" for one in sorted(longest, key=lambda one: one.begin_s))
    lines = [f"{len(found.episodes)} episodes; the fullest: {told}."]
    if found.recurrence_s is not None and found.recurrence_p is not None:
        even = "more evenly than by chance" if found.recurrence_p < 0.05 else "no more evenly than by chance"
        lines.append(f"They begin every {show_seconds(found.recurrence_s)}, {even} (p {p_text(found.recurrence_p)}).")
    return lines


def _aggressor_lines(found: Diagnosis, width: int) -> list[str]:
    if not found.aggressors:
        return []
    rows = [[clean(cell) for cell in row] for row in aggressor_rows(found)]
    return [table(list(AGGRESSORS), rows, width=width), ""]


def aggressor_rows(found: Diagnosis) -> list[list[str]]:
    """Who grew before stutters, under AGGRESSORS."""
    return [[one.name, one.what, show_bytes(one.before_bytes), show_bytes(one.usual_bytes)] for one in found.aggressors]


def _device_lines(found: Diagnosis, width: int) -> list[str]:
    if not found.devices:
        return []
    told = [paragraph(line, width=width) for line in device_sentences(found.devices)]
    return [table(list(HEADERS), device_rows(found.devices), width=width), *told, ""]


def _proposal_lines(found: Diagnosis, left_out: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    if found.proposals:
        lines += ["", "What could be tried (nothing is applied):"]
    for one in found.proposals:
        lines += ["", paragraph(f"{one.knob}: {one.now or '?'} to {one.value}", width=width)]
        lines += [labelled("  why", one.why, width=width), labelled("  price", one.price, width=width)]
        lines += [labelled("  evidence", claim, width=width) for claim in one.evidence or ("none",)]
        lines.append(f"  {shlex.join(one.try_line)}")
    if left_out:
        lines += ["", *(paragraph(f"not proposed: {reason}", width=width) for reason in left_out)]
    return lines
