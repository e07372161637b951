# SPDX-License-Identifier: Apache-2.0
"""The state that `SESSION` or `SESSION:PLACE` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrial.domain.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.store.runs import Store

_HINT = "name a saved state, a file, a session of the store, or `now`; `ktrial state save NAME` keeps one"


def state_of_session(store: Store, which: str, saved: Sequence[str]) -> bytes:
    """Its document. `saved` are names that were looked through before."""
    name, _, place = which.partition(":")
    known = [one.session for one in store.sessions()]
    if not any(one.startswith(name) for one in known):
        raise UnknownName("state", which, [*saved, *known], hint=_HINT)
    session = store.session(name).session
    states = store.states(session)
    if place and place not in states:
        raise UnknownName(f"state of session {session}", place, states, hint=_places(states))
    if not place and len(set(states.values())) != 1:
        what = f"has {len(set(states.values()))} states" if states else "has no state"
        raise BadInput(f"session {session} {what}", hint=_places(states) if states else _HINT)
    return store.raw(states[place or next(iter(states))])


def _places(states: Sequence[str] | dict[str, str]) -> str:
    return f"write SESSION:PLACE with one of {', '.join(sorted(states))}" if states else _HINT
