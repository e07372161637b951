# SPDX-License-Identifier: Apache-2.0
"""Chooses the trial that `ktrial retest` repeats, and its protocol."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.studies.ledger.model import LedgerEntry, Now, changed_since, of_knob
from ktrial.trial.protocol.file import TrialFile


def choose_trial(what: str | None, entries: Sequence[LedgerEntry], now: Now) -> str:
    """Return the name of a trial to repeat: of `what` (a trial or a knob), or the first outdated one."""
    if what is None:
        outdated = [one for one in entries if one.superseded_by is None and changed_since(one, now)]
        if not outdated:
            hint = "`ktrial retest TRIAL` repeats any trial; `ktrial ledger` lists them"
            raise BadInput("nothing to retest: no trial is out of date", hint=hint)
        return outdated[0].trial
    about = [one for one in entries if one.is_about(what)]
    if not about:
        return what
    newest = max(about, key=lambda one: one.started_unix_ms)
    alone = [one for one in of_knob(entries, what) if len(one.changes) == 1 and not one.environment]
    return max(alone, key=lambda one: one.started_unix_ms).trial if alone else newest.trial


def again(file: TrialFile) -> TrialFile:
    """Return the same protocol without its seed, so that a new one is drawn. Raises BadInput for a screening."""
    if file.screen is not None:
        raise BadInput(f"cannot repeat {file.name}: it is a screening", hint="start over with `ktrial blame … --fresh`")
    plain = {
        name: msgspec.structs.replace(arm, placebo=arm.placebo and arm.changes_nothing)
        for name, arm in file.arms.items()
    }
    return msgspec.structs.replace(file, part=None, arms=plain, design=msgspec.structs.replace(file.design, seed=None))
