# SPDX-License-Identifier: Apache-2.0
"""Find the state that `SESSION`, `LABEL`, `SESSION:PLACE` or `LABEL:PLACE` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.kit.errors import BadInput, UnknownName

_HINT = "name a saved state, a file, a session or label of the store, or `now` (`ktrial state save NAME` saves a state)"


class _Session(Protocol):
    @property
    def session(self) -> str: ...

    @property
    def label(self) -> str | None: ...


class StateStore(Protocol):
    """Storage of states with their sessions."""

    def sessions(self) -> Sequence[_Session]:
        """Return all sessions, newest first."""

    def session(self, name: str) -> _Session:
        """Return the only session whose name starts with `name`."""

    def states(self, session: str) -> Mapping[str, str]:
        """Return the digests of a session's states, by place, such as `begin` or `end`."""

    def raw(self, digest: str) -> bytes: ...


def stored_state(store: StateStore, which: str, saved: Sequence[str]) -> tuple[bytes, str]:
    """Return the document of the state `which`, and where it was found. `saved` are more names to suggest.

    A label means its newest session with states; without a place, the newest state of that session. If a session is
    named without a place, all of its states must be equal.

    Raise UnknownName if there is no such session, label or place, BadInput if the session has no state or several.
    """
    name, _, place = which.partition(":")
    sessions = store.sessions()
    known = [one.session for one in sessions]
    under = [one.session for one in sessions if one.label == name]
    if under and name not in known:
        session, states = next(((one, found) for one in under if (found := store.states(one))), (under[0], {}))
        place = place or _newest(states)
    elif any(one.startswith(name) for one in known):
        session = store.session(name).session
        states = store.states(session)
    else:
        labels = {one.label for one in sessions if one.label}
        raise UnknownName("state", which, [*saved, *sorted(labels), *known], hint=_HINT)
    if place and place not in states:
        raise UnknownName(f"state of session {session}", place, states, hint=_places(states))
    if not place and len(set(states.values())) != 1:
        what = f"has {len(set(states.values()))} different states" if states else "has no state"
        raise BadInput(f"session {session} {what}", hint=_places(states) if states else _HINT)
    place = place or next(iter(states))
    return store.raw(states[place]), f"session {session}, {place}"


def _newest(states: Mapping[str, str]) -> str:
    """Return `end`, otherwise the last of `begin`, `begin-7`, `begin-12`; "" without states."""
    if "end" in states:
        return "end"
    return max(states, key=lambda place: int(place.rpartition("-")[2]) if "-" in place else 0, default="")


def _places(states: Mapping[str, str]) -> str:
    return f"write SESSION:PLACE with one of {', '.join(sorted(states))}" if states else _HINT
