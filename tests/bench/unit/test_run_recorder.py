# SPDX-License-Identifier: Apache-2.0
"""A recording beside a run, with an agent of a few lines."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from ktrial.agent.session import Progress
from ktrial.bench.run.recorder import AgentRunRecorder
from ktrial.kit.errors import AgentError


class Session:
    """Hands over two blocks and ends when it is asked for something else; `lost` says at what it dies."""

    def __init__(self, lost: str = "") -> None:
        self.number = 0
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._lost = lost
        self._lines: queue.Queue[Progress | dict[str, Any] | None] = queue.Queue()

    def send(self, do: str, **fields: Any) -> None:
        self.sent.append((do, fields))
        self.number += 1
        if do == "watch":
            for text in ("one ", "two"):
                self._lines.put(Progress(chunk=text))
            if self._lost == "meanwhile":
                self._lines.put(None)
        else:
            self._lines.put({"ended": "told"})

    def receive_begun(self, do: str) -> None:
        if self._lost == "begin":
            raise AgentError("lost", "it did not begin")

    def receive_next(self, do: str, number: int | None = None) -> Progress | dict[str, Any]:
        assert number is not None
        assert (do, self.sent[number - 1][0]) == ("watch", "watch")
        line = self._lines.get(timeout=5)
        if line is None:
            raise AgentError("lost", "the agent was lost")
        return line

    def receive(self, do: str) -> dict[str, Any]:
        return {"matches": {}}


def recorder(*sessions: Session) -> AgentRunRecorder:
    left = list(sessions)
    return AgentRunRecorder(lambda: left.pop(0), lambda: 4711)  # type: ignore[arg-type, return-value]


def test_each_run_has_its_own_recording_by_one_agent() -> None:
    session = Session()
    made = recorder(session)
    for _ in range(2):
        made.start()
        assert made.stop() == b"one two"
    assert [do for do, _ in session.sent] == ["watch", "list", "watch", "list"]
    assert session.sent[0][1]["process"] == 4711


def test_an_agent_that_was_lost_is_told_and_another_one_taken() -> None:
    made = recorder(Session("meanwhile"), Session())
    made.start()
    with pytest.raises(AgentError, match="was lost"):
        made.stop()
    made.start()
    assert made.stop() == b"one two"


def test_one_that_does_not_begin_is_told_at_once() -> None:
    with pytest.raises(AgentError, match="did not begin"):
        recorder(Session("begin")).start()
