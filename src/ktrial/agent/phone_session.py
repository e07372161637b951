# SPDX-License-Identifier: Apache-2.0
"""A session on a phone: its facts include those that Android's own programs print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Transport
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.phone import names_in, phone_facts, script

_LIMIT_S, _MOST_BYTES = 30.0, 1 << 20


class PhoneSession(AgentSession):
    """Adds the facts that `ask` returns for names to those of the agent; they win where both have a value."""

    def __init__(self, transport: Transport, ask: Callable[[Sequence[str]], Mapping[str, Fact]]) -> None:
        super().__init__(transport)
        self._ask = ask

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        found = super().facts(only)
        asked = self._ask(names) if (names := names_in(only)) else {}
        wins = {name: fact for name, fact in asked.items() if fact.known or name not in found}
        return FactBook({**found, **wins})


def ask_phone(session: AgentSession, names: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, Fact]:
    """Return these facts; `session` is one of the user's on the phone. A root shell may read more."""
    answer = session.request(
        "exec",
        argv=["/system/bin/sh", "-c", script(names)],
        environment=dict(environment),
        directory="/",
        limit_s=_LIMIT_S,
        capture_bytes=_MOST_BYTES,
    )
    return phone_facts(read_bytes(answer["stdout"]).decode(errors="replace"), names)
