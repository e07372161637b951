# SPDX-License-Identifier: Apache-2.0
"""Reads the journal, the kept files and the live values as of one moment, even while another `ktrial keep` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ktrial.kit.errors import Refused, StalePlan
from ktrial.machine.transactions import UNFINISHED, Status
from ktrial.machine.transactions import status as status_of
from ktrial.tuning.lasting.kept_files import kept_files
from ktrial.tuning.lasting.model import Form, KeptFile

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.tuning.lasting.drift import DriftReport

T = TypeVar("T")
#: Seconds to wait for a transaction that is being written, and seconds between two looks.
_LIMIT_S, _PAUSE_S = 2.0, 0.05


class KeptState(NamedTuple):
    """The journal, and the kept files."""

    status: Status
    files: Mapping[Form, KeptFile]


class SeenDrift(NamedTuple):
    """The journal, the kept files, and how the live values differ from the files."""

    status: Status
    files: Mapping[Form, KeptFile]
    drift: DriftReport


def read_kept(app: App, session: AgentSession, *, to_write: bool) -> KeptState:
    """Return the journal and the kept files. With `to_write`, raise Refused for a file that is not in the journal."""

    def look(status: Status) -> KeptState:
        return KeptState(status, kept_files(session, status, to_write=to_write))

    return _steady(app, session, look, lambda state: any(file.is_edited for file in state.files.values()))


def read_drift(app: App, session: AgentSession) -> SeenDrift:
    from ktrial.tuning.lasting.drift import find_drift

    def look(status: Status) -> SeenDrift:
        files = kept_files(session, status)
        return SeenDrift(status, files, find_drift(session, app.catalog, status, files))

    def is_doubtful(state: SeenDrift) -> bool:
        drift = state.drift
        return not state.files or bool(drift.edited) or any(one.state != "live" for one in drift.settings)

    return _steady(app, session, look, is_doubtful)


def _steady(app: App, session: AgentSession, look: Callable[[Status], T], is_doubtful: Callable[[T], bool]) -> T:
    """Call `look` again while the journal changes, if the result may show half of a transaction."""
    end_ns = app.clock.monotonic_ns() + int(_LIMIT_S * 1e9)
    before = status_of(session)
    while True:
        refused, found = None, None
        try:
            found = look(before)
        except Refused as error:
            refused = error
        if found is not None and not is_doubtful(found):
            return found
        after = status_of(session)
        is_over = app.clock.monotonic_ns() >= end_ns
        if is_over or (_states(after) == _states(before) and UNFINISHED not in _states(after).values()):
            if found is None:
                raise refused or AssertionError
            return found
        before = after
        app.clock.sleep(_PAUSE_S)


def _states(status: Status) -> dict[int, str]:
    return {one.transaction: one.state for one in status.transactions}


def apply_keep(session: AgentSession, plan: Mapping[str, object]) -> dict[str, object]:
    """Carry out the plan of a `keep`. Raise StalePlan if another `keep` came first."""
    try:
        return session.request("apply", plan=plan)
    except StalePlan as error:
        if "plan expects" not in error.message:
            raise
        hint = "run the same command again; ktrial changed nothing"
        message = f"cannot keep settings: {error.message}; perhaps another `ktrial keep` was faster"
        raise StalePlan(error.kind, message, hint=hint) from None
