# SPDX-License-Identifier: Apache-2.0
"""The ledger of the store: updated after each trial, and read by `ktrial explain` without opening the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, KtrialError

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.evidence.unpack import OwnMachine
    from ktrial.results.model import StoredSession
    from ktrial.studies.ledger.model import Ledger, LedgerEntry
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.state.state import MachineState


def kept_ledger(app: App) -> Ledger | None:
    """Return the content of the ledger file, or None if the file is missing or of another version."""
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
        if known is not None and (
            stored.file.screen is not None or stored.file.race or (known and all(one.over for one in known))
        ):
            trials[stored.trial] = known
        else:
            trials[stored.trial] = _entries(app, stored)
    found = Ledger(trials=trials)
    if found != before:
        app.ledger_file.write(plain_json.line(found).encode())
    return found


def note(app: App) -> None:
    """Update the ledger file. Report an error instead of raising it."""
    try:
        ledger_of(app)
    except KtrialError as error:
        app.say(f"cannot update the ledger: {error.message}")


def _entries(app: App, stored: StoredTrial) -> tuple[LedgerEntry, ...]:
    import msgspec

    from ktrial.evidence.unpack import CAME
    from ktrial.studies.ledger.ledger import entries_of

    try:
        session = app.store.session(stored.session)
    except BadInput:
        session = None
    if session is not None and session.origin == CAME and not _is_own(app, session):
        # Nothing was tried on this machine: another machine with the same hardware is still another machine.
        stored = msgspec.structs.replace(stored, machine=f"another one: {stored.machine}")
    kernel = None if session is None else session.kernel_release
    return entries_of(stored, app.trials.log(stored.trial), kernel, _state(app, stored), app.catalog.knobs)


def _is_own(app: App, session: StoredSession) -> bool:
    """Return whether a session from a bundle was measured on this machine."""
    return own_machine(app).has_measured(session.boot_id, session.document)


def own_machine(app: App) -> OwnMachine:
    """Return this machine's names, plain and as its bundles replace them, and the boots that it measured in."""
    from ktrial.evidence.unpack import CAME, OwnMachine
    from ktrial.kit.scrub import Scrubber

    facts = app.user_session.facts(("os.machine", "boot.id"))
    names, name = set(), facts.value("os.machine")
    if isinstance(name, str) and name:
        scrubbed = Scrubber(*app.scrubbing()).document({"os.machine": {"value": name}})
        names = {name, scrubbed["os.machine"]["value"]}
    boots = {one.boot_id for one in app.store.sessions() if one.origin != CAME and one.boot_id}
    boot = facts.value("boot.id")
    return OwnMachine(frozenset(names), frozenset(boots | ({boot} if isinstance(boot, str) else set())))


def _state(app: App, stored: StoredTrial) -> MachineState | None:
    """Return the stored machine state of the control, if there is one."""
    from ktrial.tuning.state.state import parse_state

    states = app.store.states(stored.session)
    digest = states.get(stored.file.control)
    return parse_state(app.store.raw(digest), f"the state of {stored.trial}") if digest is not None else None
