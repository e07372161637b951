# SPDX-License-Identifier: Apache-2.0
"""Sample the machine's sensors during a run, with an agent for that purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Detached
from ktrial.bench.run.rights import Connect
from ktrial.kit.errors import AgentError
from ktrial.machine.sensors import Samples

#: Sampling that nobody stops ends after this many seconds.
LIMIT_S = 86_400.0


class AgentSampling:
    """Implements `machine.ports.Sampling`. `connect` starts the agent, which samples `sources`, by default all.

    The agent stays between samples, so that no agent has to start directly before a run.
    """

    def __init__(self, connect: Connect, sources: Sequence[str] = ()) -> None:
        self._connect = connect
        self._sources = {"sources": list(sources)} if sources else {}
        self._agent: tuple[Detached, AgentSession] | None = None
        self._goes_on = False

    def once(self) -> Samples:
        if self._goes_on:
            raise RuntimeError("sampling is running")
        try:
            return read_samples(self._opened().request("sample", limit_s=LIMIT_S, count=1, **self._sources))
        except BaseException:
            self.close()
            raise

    def start(self, period_s: float = 1.0) -> None:
        """Take a sample now and return; then take a sample each period."""
        if self._goes_on:
            raise RuntimeError("sampling is running already")
        session = self._opened()
        try:
            session.send("sample", limit_s=LIMIT_S, period_s=period_s, tell_begun=True, **self._sources)
            session.receive_begun("sample")
        except BaseException:
            self.close()
            raise
        self._goes_on = True

    def stop(self) -> Samples:
        """Take a last sample and return all samples. Raise AgentError if the agent was lost with its samples."""
        if not self._goes_on or self._agent is None:
            raise RuntimeError("sampling is not running")
        self._goes_on = False
        transport, session = self._agent
        try:
            transport.hang_up()
            return read_samples(session.receive_last("sample"))
        finally:
            self.close()

    def close(self) -> None:
        if self._agent is not None:
            (transport, _), self._agent = self._agent, None
            self._goes_on = False
            transport.finish()

    def _opened(self) -> AgentSession:
        if self._agent is None:
            transport = self._connect()
            try:
                self._agent = transport, AgentSession(transport)
            except BaseException:
                transport.finish()
                raise
        return self._agent[1]


def read_samples(answer: Mapping[str, Any]) -> Samples:
    try:
        return msgspec.convert(answer, Samples)
    except msgspec.ValidationError as error:
        raise AgentError("lost", f"cannot read the agent's samples: {error}", hint="run the command again") from None
