# SPDX-License-Identifier: Apache-2.0
"""The ledger of the store: updated after each trial, and read by `ktrial explain` without opening the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, KtrialError

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.studies.ledger.model import Ledger, LedgerEntry
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.state.state import MachineState


def kept_ledger(app: App) -> Ledger | None:
    """Return the ledger file's content, or None if it is missing or of another version."""
    data = app.ledger_file.read()
    if data is None:
        return None
    import msgspec

    from ktrial.kit.json_strict import decode_as
    from ktrial.studies.ledger.model import Ledger

    try:
        return decode_as(data, Ledger)
    except msgspec.DecodeError:
        return None


def kept_entries(app: App, knob: str) -> tuple[LedgerEntry, ...]:
    """Return the ledger's entries on a knob; trials of that knob alone come first."""
    ledger = kept_ledger(app)
    if ledger is None:
        return ()
    from ktrial.studies.ledger.model import of_knob

    return of_knob(ledger.entries, knob)


def ledger_of(app: App) -> Ledger:
    """Return the ledger of all trials in the store; finished trials are judged only once."""
    from ktrial.kit import plain_json
    from ktrial.studies.ledger.model import Ledger

    before = kept_ledger(app) or Ledger()
    trials: dict[str, tuple[LedgerEntry, ...]] = {}
    for stored in app.trials.all():
        known = before.trials.get(stored.trial)
        if known is not None and (stored.file.screen is not None or (known and all(one.over for one in known))):
            trials[stored.trial] = known
        else:
            trials[stored.trial] = _entries(app, stored)
    found = Ledger(trials=trials)
    if found != before:
        app.ledger_file.write(plain_json.line(found).encode())
    return found


def note(app: App) -> None:
    """Update the ledger file. An error is reported and not raised."""
    try:
        ledger_of(app)
    except KtrialError as error:
        app.say(f"cannot update the ledger: {error.message}")


def _entries(app: App, stored: StoredTrial) -> tuple[LedgerEntry, ...]:
    from ktrial.studies.ledger.ledger import entries_of

    try:
        kernel = app.store.session(stored.session).kernel_release
    except BadInput:
        kernel = None
    return entries_of(stored, app.trials.log(stored.trial), kernel, _state(app, stored), app.catalog.knobs)


def _state(app: App, stored: StoredTrial) -> MachineState | None:
    """Return the stored machine state of the control, if there is one."""
    from ktrial.tuning.state.state import parse_state

    states = app.store.states(stored.session)
    digest = states.get(stored.file.control)
    return parse_state(app.store.raw(digest), f"the state of {stored.trial}") if digest is not None else None
