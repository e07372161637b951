# SPDX-License-Identifier: Apache-2.0
"""Samples of the machine's sensors beside a run, by an agent of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.domain.errors import AgentError
from ktrial.domain.sensors import Samples
from ktrial.host.agent import AgentSession
from ktrial.host.rights import Connect
from ktrial.host.transport import DetachedTransport

#: Sampling that nobody ends ends by itself after so many seconds.
LIMIT_S = 86_400.0


class Sampling:
    """Implements `services.ports.Sampling`. `connect` starts an agent; of `sources` all are read when none is named."""

    def __init__(self, connect: Connect, sources: Sequence[str] = ()) -> None:
        self._connect = connect
        self._sources = {"sources": list(sources)} if sources else {}
        self._running: tuple[DetachedTransport, AgentSession] | None = None

    def once(self) -> Samples:
        """One sample, now."""
        transport, session = self._ask(count=1)
        return self._finish(transport, session)

    def start(self, period_s: float = 1.0) -> None:
        """Begin: a sample at once, then one each period."""
        if self._running is not None:
            raise RuntimeError("the sampling goes on already")
        self._running = self._ask(period_s=period_s)

    def stop(self) -> Samples:
        """End it with a last sample. Raises AgentError when the agent was lost, and with it the samples."""
        if self._running is None:
            raise RuntimeError("the sampling was not started")
        (transport, session), self._running = self._running, None
        transport.hang_up()
        return self._finish(transport, session)

    def _ask(self, **fields: Any) -> tuple[DetachedTransport, AgentSession]:
        transport = self._connect()
        try:
            session = AgentSession(transport)
            session.send("sample", limit_s=LIMIT_S, **self._sources, **fields)
        except BaseException:
            transport.finish()
            raise
        return transport, session

    def _finish(self, transport: DetachedTransport, session: AgentSession) -> Samples:
        try:
            return read_samples(session.receive("sample"))
        finally:
            transport.finish()


def read_samples(answer: Mapping[str, Any]) -> Samples:
    """The reply to `sample`. Raises AgentError."""
    try:
        return msgspec.convert(answer, Samples)
    except msgspec.ValidationError as error:
        raise AgentError("lost", f"the agent's samples are not as agreed: {error}") from None
