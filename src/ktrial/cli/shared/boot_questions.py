# SPDX-License-Identifier: Apache-2.0
"""Questions that need several trials, one after the other, which all boot this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.text import duration
from ktrial.cli.shared.boot_trials import EACH_S, TrialBoots, boots_text, wait_for_services
from ktrial.cli.shared.boots import BootConsent, read_status, remove_boots
from ktrial.cli.shared.manual_trials import start_by_hand
from ktrial.cli.shared.several_trials import is_over, part_of, trials_of
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, KtrialError, Refused, in_lower_case
from ktrial.kit.tables import columns, paragraph
from ktrial.studies.blame.blame import follow
from ktrial.studies.blame.cost import cost_of, most_runs
from ktrial.studies.blame.factors import check_combinations
from ktrial.studies.blame.model import Blame, BlameQuestion, BootQuestion
from ktrial.studies.blame.text import blame_text
from ktrial.trial.arms.boot_arms import with_boot_signs
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.manual_visits import due_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.trial.arms.manual import Due
    from ktrial.trial.run.prepare import Prepared

#: The next step: a trial that is not over, a trial that has not begun, or the answer.
NextStep = StoredTrial | TrialFile | Blame


def answer_in_boots(app: App, question: BlameQuestion) -> Blame | None:
    """Return the answer if the same question was asked before and its trials are over; otherwise None."""
    asked = _find_same(app, question)
    step = None if asked is None else _next_step(app, asked)
    return step if isinstance(step, Blame) else None


def ask_in_boots(
    app: App,
    question: BlameQuestion,
    left_out: Mapping[str, str],
    *,
    consent: BootConsent,
    allow_dangerous: bool,
    fresh: bool,
    as_json: bool,
) -> int:
    """Show how many boots the next trial and all trials need. With --yes, start or resume the next trial."""
    asked = None if fresh else _find_same(app, question)
    if asked is None:
        asked = BootQuestion(asked_unix_ms=app.clock.unix_ms(), question=question, left_out=left_out)
    step = _next_step(app, asked)
    assert not isinstance(step, Blame), "the caller has looked for an answer"
    file = step.file if isinstance(step, StoredTrial) else step
    boots = TrialBoots(app, file, consent)
    if not boots.agree(file, as_json=as_json, overall=_overall_text(question)):
        return 0
    words = dict.fromkeys((*asked.security, *(one.word for one in boots.guarded)))
    asked = msgspec.structs.replace(asked, security=tuple(words))
    trial, due = _stored(app, step, asked, allow_dangerous=allow_dangerous, as_json=as_json)
    return boots.start(trial, due, as_json=as_json)


def go_on(app: App, session: AgentSession, trial: StoredTrial) -> bool:
    """Start the next trial of the question after a trial has ended; return whether there is a next trial.

    ktrial can make boot entries only in the default boot, so the machine boots its default entry in between.
    """
    asked = question_of(app, trial)
    if asked is None:
        return False
    step = _next_step(app, asked)
    if isinstance(step, Blame):
        sys.stdout.write(blame_text(step, width=columns()))
        return False
    now = read_status(session)
    if now.running is not None:
        app.say(f"{trial.trial} is over; the next trial of {asked.question.name} begins in the default boot")
        session.request("reboot")
        return True
    wait_for_services(app)
    # This comes before anything is removed: after a power failure, the next boot runs this code again and finds the
    # trial.
    following, due = _stored(app, step, asked, allow_dangerous=True, as_json=False)
    now = read_status(session)
    if now.transaction is None:
        return True  # somebody has stopped the trial meanwhile
    if remove_boots(session, now).state != "reverted":
        raise KtrialError(
            f"cannot continue {asked.question.name}: ktrial could not remove the entries of {trial.trial}",
            hint="remove the entries with `ktrial boot undo`",
        )
    # A user who lets the machine reboot until the answer is known also agrees to what --anyway allows.
    boots = TrialBoots(app, following.file, BootConsent(yes=True, anyway=True))
    new = next((one for one in boots.guarded if one.word not in asked.security), None)
    if new is not None:
        raise Refused(
            f"cannot continue {asked.question.name}: you have not confirmed {new.word}, which weakens this machine",
            hint=f"run the same `ktrial blame` command again with --yes-security {new.name}",
        )
    if boots.start(following, due, as_json=False) != 0:
        raise KtrialError(
            f"cannot continue {asked.question.name}: ktrial could not write the boot entries of {following.trial}",
            hint="remove the cause of the failure that the lines above show",
        )
    return True


def question_of(app: App, trial: StoredTrial) -> BootQuestion | None:
    """Return the question that a trial over boots belongs to, if any."""
    name = trial.file.part
    return _read(app, name) if name is not None and app.boot_questions.has(name) else None


def show_question(app: App, trial: StoredTrial) -> None:
    """Print the answer to the question that a trial belongs to, or that there is no answer yet."""
    asked = question_of(app, trial)
    if asked is None:
        return
    step = _next_step(app, asked)
    if isinstance(step, Blame):
        sys.stdout.write(blame_text(step, width=columns()) + "\n")
        return
    count = len(trials_of(app, asked.question.name))
    text = f"{asked.question.name}: no answer yet; {count} trial{'s'[: count != 1]} so far. The newest:"
    sys.stdout.write(paragraph(text, width=columns()) + "\n\n")


def _stored(
    app: App, step: StoredTrial | TrialFile, asked: BootQuestion, *, allow_dangerous: bool, as_json: bool
) -> tuple[StoredTrial, Due]:
    """Store the question and, unless it exists, its next trial; return the trial with its first visit."""

    def check(ready: Prepared) -> None:
        check_combinations(asked.question, ready.file, ready.arms)

    if isinstance(step, TrialFile):
        trial, due = start_by_hand(app, step, allow_dangerous=allow_dangerous, as_json=as_json, check=check)
    else:
        trial = step
        left = due_of(step, app.trials.log(step.trial))
        assert left is not None, "a trial that is over is no next step"
        due = left
    app.boot_questions.save(asked.question.name, plain_json.document(asked, indent=2))
    return trial, due


def _next_step(app: App, asked: BootQuestion) -> NextStep:
    trials = trials_of(app, asked.question.name)
    parts = [part_of(app, one) for one in trials]
    if parts and not is_over(parts[-1]):
        return trials[-1]
    step = follow(asked.question, parts)
    if isinstance(step, Blame):
        return msgspec.structs.replace(step, left_out=asked.left_out)
    return with_boot_signs(step, {})


def _find_same(app: App, question: BlameQuestion) -> BootQuestion | None:
    """Return the newest stored question that equals `question`, if any."""
    stored = (_read(app, name) for name in app.boot_questions.names())
    return max((one for one in stored if one.is_same(question)), key=lambda one: one.asked_unix_ms, default=None)


def _read(app: App, name: str) -> BootQuestion:
    data, place = app.boot_questions.read(name)
    try:
        return msgspec.json.decode(data, type=BootQuestion)
    except msgspec.DecodeError as error:
        raise BadInput(
            f"this version of ktrial cannot read the file ({in_lower_case(str(error))})",
            file=place,
            hint="remove the file to start over",
        ) from None


def _overall_text(question: BlameQuestion) -> str:
    """Return a text on how many boots all trials need.

    Each boot after the first also needs a boot of the default entry.
    """
    steps = cost_of(question)
    least, most = (sum(runs) + len(steps) - 1 for runs in ((one.least for one in steps), (one.most for one in steps)))
    limit = most_runs(question)
    return (
        f"{least} to {boots_text(most)}, if one suspect is to blame. Several suspects can take more: at most"
        f" {limit}, {duration(limit * EACH_S)}, without repeated blocks"
    )
