# SPDX-License-Identifier: Apache-2.0
"""Gathers the overview of `ktrial status`: the journal, the ledger and the current values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.cli.hosts import again
from ktrial.cli.shared.ledger import kept_ledger, ledger_of
from ktrial.cli.shared.others import verdicts_elsewhere
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.machine.transactions import Status, decode_reply
from ktrial.studies.ledger.ledger_now import now_of
from ktrial.studies.overview_text import Overview, overview_of

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.studies.ledger.model import LedgerEntry

#: Number of ledger entries that an overview reads.
_NEWEST = 40
#: Number of other people's verdicts that an overview shows.
_OTHERS = 2


class StatusAnswer(NamedTuple):
    """The journal as the agent reported it (None if only root can read it), and the overview."""

    answer: dict[str, Any] | None
    status: Status | None
    overview: Overview


def gather_overview(app: App, *, may_ask: bool) -> StatusAnswer:
    """Return the journal and the overview. Without `may_ask`, read the journal only if that needs no prompt."""
    session = app.root_session("reading the journal") if may_ask else app.best_session("reading the journal")
    answer = _journal(session, must=may_ask)
    status = decode_reply("status", answer, Status) if answer is not None else None
    entries = _entries(app)[:_NEWEST]
    found = overview_of(status, entries, now_of(session, entries, app.catalog.knobs), again(app.host))
    others = verdicts_elsewhere(app, session)[:_OTHERS] if app.host is None else ()
    return StatusAnswer(answer, status, msgspec.structs.replace(found, elsewhere=others))


def _journal(session: AgentSession, *, must: bool) -> dict[str, Any] | None:
    try:
        return session.request("status")
    except AgentError:
        if must or session.is_root:
            raise
        return None


def _entries(app: App) -> tuple[LedgerEntry, ...]:
    """Return the newest entries of the ledger. If the store cannot be read, report that and use the ledger file."""
    if app.host is not None:
        return ()
    try:
        return ledger_of(app).entries
    except KtrialError as error:
        app.say(f"cannot read the trials: {error.message}")
        found = kept_ledger(app)
        return found.entries if found is not None else ()
