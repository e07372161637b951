# SPDX-License-Identifier: Apache-2.0
"""Questions that several trials answer, one after the other; they go on from the store.

A course says from its trials so far which one comes next, or what the answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ktrial.cli.shared.ledger import note
from ktrial.cli.shared.run_trial import part_of_question
from ktrial.judge.model.log import RunEnded, protocol_in
from ktrial.studies.blame.model import BlamePart
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.run.progress import TrialProgress

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.prepare import Prepared

Answer = TypeVar("Answer")
Question = TypeVar("Question", bound=msgspec.Struct)
Follow = Callable[[Sequence[BlamePart]], TrialFile | Answer]


def find_unfinished(
    app: App, question: Question, title: str, follow: Callable[[Question, Sequence[BlamePart]], TrialFile | Answer]
) -> tuple[Question, list[BlamePart]]:
    """The newest question of the store that asks the same and is not answered, with its trials; else this one."""
    for name, seed, parts in iter_started(app, title):
        same = msgspec.structs.replace(question, name=name, seed=seed)
        course = partial(follow, same)
        if belongs(course, parts) and is_open(course, parts):
            return same, parts
    return question, []


def iter_started(app: App, title: str) -> Iterator[tuple[str, int, list[BlamePart]]]:
    """Questions of this title in the store, the newest first: name, seed and trials so far."""
    groups: dict[str, list[StoredTrial]] = {}
    for stored in app.trials.all():
        if stored.file.part is not None and stored.file.part.rpartition("-")[0] == title:
            groups.setdefault(stored.file.part, []).append(stored)
    for name, group in groups.items():
        # Each trial of a question has the next seed; the clock may have been set back between two of them.
        ordered = sorted(group, key=lambda one: one.file.design.seed or 0)
        yield name, ordered[0].file.design.seed or 0, [part_of(app, stored) for stored in ordered]


def belongs(follow: Follow[Answer], parts: Sequence[BlamePart]) -> bool:
    """Return whether these trials are the beginning of this very question."""
    for number, part in enumerate(parts):
        wanted = follow(parts[:number])
        if not isinstance(wanted, TrialFile) or _question_of(wanted) != _question_of(part.file):
            return False
    return True


def is_open(follow: Follow[Answer], parts: Sequence[BlamePart]) -> bool:
    """Return whether a trial is missing for the answer."""
    return isinstance(follow(parts), TrialFile) or not _is_over(parts[-1])


def _question_of(file: TrialFile) -> TrialFile:
    """Return what is asked for, without the marks that the machine put on it."""
    plain = {name: msgspec.structs.replace(arm, placebo=False) for name, arm in file.arms.items()}
    return msgspec.structs.replace(file, arms=plain)


def _is_over(part: BlamePart) -> bool:
    return part.judgement.next.action == "stop"


def part_of(app: App, stored: StoredTrial) -> BlamePart:
    """Return a trial of the store as a part of a question."""
    log = app.trials.log(stored.trial)
    protocol = protocol_in(log)
    return BlamePart(
        trial=stored.trial,
        file=stored.file,
        judgement=judgement_of(log),
        runs=sum(isinstance(event, RunEnded) and event.block is not None for event in log),
        directions={name: rule.direction for name, rule in protocol.outcomes.items()},
    )


def carry_out(
    app: App,
    follow: Follow[Answer],
    parts: Sequence[BlamePart],
    check: Callable[[Prepared], None],
    *,
    allow_dangerous: bool,
    as_json: bool,
) -> Answer | None:
    """To the answer; None if somebody interrupted. `check` refuses a trial before its first run."""
    done = list(parts)
    first = follow(done)
    if isinstance(first, TrialFile) and first.guest is None:
        app.lock_trials()
    stored = app.trials.find(done.pop().trial) if done and not _is_over(done[-1]) else None
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        while isinstance(wanted := follow(done), TrialFile):
            stored, carried = part_of_question(app, wanted, stored, check, listen, allow_dangerous=allow_dangerous)
            if carried.interrupted:
                return None
            done.append(part_of(app, stored))
            stored = None
    note(app)
    return wanted
