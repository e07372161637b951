# SPDX-License-Identifier: Apache-2.0
"""The overview of `ktrial status`: trials that are not over, the last verdicts, and what to do next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ktrial.kit.tables import clean, labelled
from ktrial.machine.transactions import UNFINISHED, Status
from ktrial.studies.ledger.model import LedgerEntry, Now, standing
from ktrial.studies.ledger.others import OthersVerdict
from ktrial.studies.ledger.others_text import short_line
from ktrial.studies.ledger.text import effect_words
from ktrial.tuning.lasting.kept_files import is_lasting

_SHOWN = 4
_LABEL = 12


class OpenTrial(msgspec.Struct, frozen=True):
    """A trial that is not over. `by_hand` means that a person puts its arms in force."""

    trial: str
    blocks: int
    by_hand: bool


class Overview(msgspec.Struct, frozen=True):
    """The content of an overview: recent verdicts, next steps (commands with a reason each), and verdicts of others."""

    open: tuple[OpenTrial, ...]
    verdicts: tuple[LedgerEntry, ...]
    next: tuple[tuple[str, str], ...]
    elsewhere: tuple[OthersVerdict, ...] = ()


def overview_of(status: Status | None, entries: Sequence[LedgerEntry], now: Now, program: str = "ktrial") -> Overview:
    """Return the overview. `status` is None if only root can read the journal; `entries` must have the newest first."""
    own = [entry for entry in entries if not entry.placebo]
    unfinished = [entry for entry in own if not entry.over]
    trials = {one.trial: OpenTrial(one.trial, one.blocks, one.manual is not None) for one in unfinished}
    verdicts = tuple(one for one in own if one.verdict is not None and one.over and one.superseded_by is None)[:_SHOWN]
    steps = list(_steps(status, list(trials.values()), verdicts, now))
    if not steps:
        steps = [("doctor", "what is tuned here"), ("review FILE", "a list of tweaks"), ("suggest", "what to try")]
    found = tuple((f"{program} {command}", why) for command, why in steps[:_SHOWN])
    return Overview(tuple(trials.values())[:_SHOWN], verdicts, found)


def _steps(
    status: Status | None, trials: Sequence[OpenTrial], verdicts: Sequence[LedgerEntry], now: Now
) -> Iterator[tuple[str, str]]:
    transactions = status.transactions if status is not None else ()
    if any(one.state == UNFINISHED for one in transactions):
        yield "recover", "restores what an interrupted command left behind"
    for trial in trials[:1]:
        yield f"trial {'next' if trial.by_hand else 'resume'} {trial.trial}", "continues the trial"
    for entry in verdicts:
        if entry.verdict == "better" and standing(entry, now) == "not applied":
            yield f"keep {entry.trial}", f"{entry.what}: better, and not in force"
    if any(one.state == "applied" and not is_lasting(one) for one in transactions):
        yield "revert", "undoes the newest of the applied settings"
    if status is None:
        yield "status", "also shows what is applied (needs root)"
    if verdicts:
        yield f"trial show {verdicts[0].trial}", "the newest verdict"


def overview_json(found: Overview) -> dict[str, Any]:
    return {
        "open_trials": found.open,
        "verdicts": found.verdicts,
        "elsewhere": found.elsewhere,
        "next": [{"command": command, "why": why} for command, why in found.next],
    }


def overview_text(found: Overview, *, width: int) -> str:
    lines = []
    for number, trial in enumerate(found.open):
        told = f"{trial.trial}, {trial.blocks} block{'s'[: trial.blocks != 1]}"
        lines.append(_line("not over" if not number else "", told, width))
    for number, entry in enumerate(found.verdicts):
        day = time.strftime("%Y-%m-%d", time.gmtime(entry.started_unix_ms / 1000))
        told = f"{day} {entry.verdict}: {entry.what}; {entry.outcome} {effect_words(entry)}; {entry.trial}"
        lines.append(_line("verdicts" if not number else "", told, width))
    for number, verdict in enumerate(found.elsewhere):
        told = f"{verdict.entry.what}; {verdict.entry.outcome} {effect_words(verdict.entry)}; {short_line(verdict)}"
        lines.append(_line("elsewhere" if not number else "", told, width))
    lines += [""] if lines else []
    column = max(len(command) for command, _ in found.next) + 2
    for number, (command, why) in enumerate(found.next):
        label = ("next" if not number else "").ljust(_LABEL)
        line = f"{label}{clean(command).ljust(column)}{clean(why)}"
        lines.append(line if len(line) <= width else f"{label}{clean(command)}")
    return "\n".join(lines) + "\n"


def _line(label: str, text: str, width: int) -> str:
    return labelled(label, text, width=width, label_columns=_LABEL)
