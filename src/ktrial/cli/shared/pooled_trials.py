# SPDX-License-Identifier: Apache-2.0
"""Trials of several machines, taken together: what their protocols say of the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ktrial.cli.app import App
from ktrial.kit.errors import BadInput
from ktrial.trial.outcome.pool import pooled_question

if TYPE_CHECKING:
    from ktrial.judge.model.query import AskedComparison


def as_protocols_say(app: App, sessions: Sequence[str], question: AskedComparison) -> AskedComparison:
    """Return the question, with what the trials of these sessions fixed beforehand where nobody said otherwise."""
    if not sessions:
        return question

    trials = []
    for session in sessions:
        found = app.trials.of_session(session)
        if not found:
            raise BadInput(
                f"the trial whose runs are in {session} is not in {app.store.shown}",
                hint="a bundle that was made of the trial brings it: `ktrial bundle TRIAL`",
            )
        trials.append(found[0])
    fixed = pooled_question(trials)
    return msgspec.structs.replace(
        question,
        control=question.control or fixed.control,
        primary=question.primary or fixed.primary,
        margin=question.margin or fixed.margin,
        declared=(*question.declared, *(key for key in fixed.declared if key not in question.declared)),
    )
