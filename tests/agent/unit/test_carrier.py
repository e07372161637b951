# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest

from ktrial.agent import carrier
from ktrial.agent.carrier import CarriedTransport
from ktrial.kit.errors import AgentError


def ends() -> tuple[int, int, int, int]:
    """What the head writes and reads, and the other ends of both."""
    there, to_agent = os.pipe()
    from_agent, said = os.pipe()
    return to_agent, from_agent, there, said


def test_an_agent_that_ends_its_output_has_finished() -> None:
    to_agent, from_agent, there, said = ends()
    killed: list[bool] = []
    transport = CarriedTransport(to_agent, from_agent, lambda: killed.append(True), lambda: None)
    assert not transport.answered()
    os.write(said, b"late\n")
    assert transport.answered()
    os.close(said)
    transport.finish()
    assert killed == []
    assert os.read(there, 1) == b""
    os.close(there)


def test_an_agent_that_does_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "PATIENCE_S", 0.01)
    to_agent, from_agent, there, said = ends()
    killed: list[bool] = []
    CarriedTransport(to_agent, from_agent, lambda: killed.append(True), lambda: None).abandon()
    assert killed == [True]
    os.close(there)
    os.close(said)


def test_a_guest_that_is_gone_is_told_in_place_of_an_agent_that_is_lost() -> None:
    to_agent, from_agent, there, said = ends()
    transport = CarriedTransport(to_agent, from_agent, lambda: None, lambda: "the guest has ended: panic")
    os.write(said, b'{"id":')
    os.close(said)
    with pytest.raises(AgentError, match="the guest has ended: panic") as caught:
        transport.receive(5)
    os.close(there)
    with pytest.raises(AgentError, match="the guest has ended: panic"):
        transport.send(b"{}\n")
    assert caught.value.kind == "lost"
    transport.close()


def test_the_end_of_an_agent_in_a_guest_that_runs_is_the_agents() -> None:
    to_agent, from_agent, there, said = ends()
    transport = CarriedTransport(to_agent, from_agent, lambda: None, lambda: None)
    os.close(said)
    assert transport.receive(5) == b""
    os.close(there)
    with pytest.raises(BrokenPipeError):
        transport.send(b"{}\n")
    transport.close()
