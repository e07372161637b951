# SPDX-License-Identifier: Apache-2.0
"""A world for sources of live metrics: clocks that move only when told, and answers made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktrial.agent.session import AgentSession
from ktrial.bench.benchmark import RawOutput
from ktrial.live.sources.web import NotRead, WebAnswer
from ktrial.live.sources.world import LiveWorld
from tests.support.machine import FakeMachine

#: The start time of the clocks.
START_MS = 1_700_000_000_000


class StillClock:
    """A clock that moves only when told: both readings, or only the wall clock."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.monotonic_ms = 50_000

    def monotonic_ns(self) -> int:
        return self.monotonic_ms * 1_000_000

    def unix_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.pass_s(seconds)

    def pass_s(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
        self.monotonic_ms += round(seconds * 1000)


class FakeWeb:
    """Answers with `text`, or not at all if it is None."""

    def __init__(self, text: str | None = None, content_type: str = "text/plain") -> None:
        self.text = text
        self.content_type = content_type
        self.status = 200
        self.asked: list[str] = []

    def __call__(self, address: str, limit_s: float, accept: str) -> WebAnswer:
        assert limit_s > 0
        assert accept
        self.asked.append(address)
        if self.text is None:
            raise NotRead("localhost: Connection refused")
        return WebAnswer(self.status, self.text.encode(), self.content_type, None)


def world(
    clock: StillClock,
    *,
    machine: FakeMachine | None = None,
    web: Callable[[str, float, str], WebAnswer] | None = None,
    run: Callable[[Sequence[str], float], RawOutput] = lambda words, limit_s: RawOutput(failed="no such program"),
    period_s: float | None = None,
    is_remote: bool = False,
    open_root: Callable[[], AgentSession] | None = None,
) -> LiveWorld:
    there = machine or FakeMachine({}, is_root=False)
    return LiveWorld(
        clock=clock,
        machine=lambda: there,
        run=run,
        period_s=period_s,
        is_remote=is_remote,
        open_root=open_root,
        fetch=web or FakeWeb(),
    )
