# SPDX-License-Identifier: Apache-2.0
"""Which trial is to be repeated, and with what."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.studies.ledger.model import LedgerEntry, Now, changed_since, of_knob
from ktrial.trial.protocol.file import TrialFile


def choose_trial(what: str | None, entries: Sequence[LedgerEntry], now: Now) -> str:
    """Return the name of the trial that is meant. Raises BadInput if none is."""
    if what is None:
        outdated = [one for one in entries if one.superseded_by is None and changed_since(one, now)]
        if not outdated:
            hint = "`ktrial retest TRIAL` repeats one all the same; `ktrial ledger` lists them"
            raise BadInput("nothing was measured under other settings than these", hint=hint)
        return outdated[0].trial
    about = [one for one in entries if one.is_about(what)]
    if not about:
        return what
    newest = max(about, key=lambda one: one.started_unix_ms)
    alone = [one for one in of_knob(entries, what) if len(one.changes) == 1 and not one.environment]
    return max(alone, key=lambda one: one.started_unix_ms).trial if alone else newest.trial


def again(file: TrialFile) -> TrialFile:
    """Return the same protocol with a seed that is drawn anew. Raises BadInput for a screening."""
    if file.screen is not None:
        raise BadInput(f"{file.name} screens settings", hint="`ktrial blame … --fresh` begins anew")
    plain = {
        name: msgspec.structs.replace(arm, placebo=arm.placebo and arm.changes_nothing)
        for name, arm in file.arms.items()
    }
    return msgspec.structs.replace(file, part=None, arms=plain, design=msgspec.structs.replace(file.design, seed=None))
