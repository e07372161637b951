# SPDX-License-Identifier: Apache-2.0
"""Questions that several trials answer one after another. An interrupted question continues from the store.

A `Follow` function takes the trials so far, and returns the next trial or the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ktrial.cli.shared.ledger import note
from ktrial.cli.shared.long_runs import TimedTrial
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
    """Return the newest stored question that equals `question` and has no answer, with its trials.

    If no stored question qualifies, return `question` and no trials.
    """
    for name, seed, parts in iter_started(app, title):
        same = msgspec.structs.replace(question, name=name, seed=seed)
        course = partial(follow, same)
        if belongs(course, parts) and is_open(course, parts):
            return same, parts
    return question, []


def iter_started(app: App, title: str) -> Iterator[tuple[str, int, list[BlamePart]]]:
    """Yield the stored questions with this title, the newest first: name, seed and trials so far."""
    groups: dict[str, list[StoredTrial]] = {}
    for stored in app.trials.all():
        if stored.file.part is not None and stored.file.part.rpartition("-")[0] == title:
            groups.setdefault(stored.file.part, []).append(stored)
    for name, group in groups.items():
        ordered = _in_order(group)
        yield name, ordered[0].file.design.seed or 0, [part_of(app, stored) for stored in ordered]


def trials_of(app: App, question: str) -> list[StoredTrial]:
    """Return the trials of the question with this name, in the order in which they began."""
    return _in_order([stored for stored in app.trials.all() if stored.file.part == question])


def _in_order(group: Sequence[StoredTrial]) -> list[StoredTrial]:
    # In order of the seed, which each trial of a question increments: the clock may have been set back.
    return sorted(group, key=lambda one: one.file.design.seed or 0)


def belongs(follow: Follow[Answer], parts: Sequence[BlamePart]) -> bool:
    """Return whether the question would have asked for exactly these trials so far."""
    for number, part in enumerate(parts):
        expected = follow(parts[:number])
        if not isinstance(expected, TrialFile) or _question_of(expected) != _question_of(part.file):
            return False
    return True


def is_open(follow: Follow[Answer], parts: Sequence[BlamePart]) -> bool:
    """Return whether the answer needs another trial, or more runs of the last trial."""
    return isinstance(follow(parts), TrialFile) or not is_over(parts[-1])


def _question_of(file: TrialFile) -> TrialFile:
    """Return the protocol without the marks of placebos, which ktrial adds on each machine."""
    plain = {name: msgspec.structs.replace(arm, placebo=False) for name, arm in file.arms.items()}
    return msgspec.structs.replace(file, arms=plain)


def is_over(part: BlamePart) -> bool:
    """Return whether the trial needs no further run."""
    return part.judgement.next.action == "stop"


def part_of(app: App, stored: StoredTrial) -> BlamePart:
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
    most_visits: int,
    allow_dangerous: bool,
    as_json: bool,
) -> Answer | None:
    """Run trials until the answer is known; return None if interrupted. `check` may refuse a trial before it runs.

    All trials together make at most `most_visits` visits.
    """
    done = list(parts)
    first = follow(done)
    if isinstance(first, TrialFile) and first.guest is None:
        app.lock_trials()
    stored = app.trials.find(done.pop().trial) if done and not is_over(done[-1]) else None
    listen = TrialProgress(app.clock, as_json=as_json)
    timed = TimedTrial(app, listen, ask=not as_json, most_visits=most_visits)
    with app.interrupts, listen:
        while isinstance(following := follow(done), TrialFile):
            stored, carried = part_of_question(app, following, stored, check, timed, allow_dangerous=allow_dangerous)
            if carried.interrupted:
                return None
            done.append(part_of(app, stored))
            stored = None
    note(app)
    return following
