# SPDX-License-Identifier: Apache-2.0
"""Loads and servers that run beside a run, each with its own agent, and the steps before the run."""

from __future__ import annotations

from collections.abc import Callable

from ktrial.agent.clock import SystemClock
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Detached
from ktrial.bench.agent_output import exec_output, load_output
from ktrial.bench.benchmark import RawOutput, why_failed
from ktrial.bench.record import raw_parts
from ktrial.kit.errors import AgentError

#: Seconds between two checks whether a server is ready.
_ASK_EACH_S = 0.05


class Running:
    """A load or server in progress."""

    def __init__(self, transport: Detached, session: AgentSession, *, own_load: bool) -> None:
        self._transport = transport
        self._session = session
        self._own_load = own_load
        self._ended: RawOutput | None = None

    def alive(self) -> bool:
        return self._ended is None and not self._transport.answered()

    def stop(self) -> RawOutput:
        """End the program and its children, and return the output."""
        if self._ended is None:
            try:
                self._transport.hang_up()
                self._ended = output_of(self._session, own_load=self._own_load)
            except AgentError as error:
                self._ended = RawOutput(failed=f"the agent reported an error ({error.message})")
            finally:
                self._transport.finish()
        return self._ended

    def wait(self, limit_s: float, clock: SystemClock, ask: Callable[[], RawOutput]) -> str | None:
        """Repeat `ask` for at most `limit_s` until it succeeds. Return why it did not succeed; None if it did."""
        end_ns = clock.monotonic_ns() + int(limit_s * 1e9)
        while True:
            said = why_failed(ask())
            if said is None:
                return None
            if not self.alive():
                return f"ended before it was ready: it {why_failed(self.stop()) or 'ended with status 0'}"
            if clock.monotonic_ns() > end_ns:
                return f"was not ready within {limit_s:g} s: its check {said}"
            clock.sleep(_ASK_EACH_S)


class Course:
    """The steps of one run and their output. `end` stops the servers among the steps."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, ...]] = []
        self._servers: list[tuple[int, tuple[str, ...], Running]] = []
        self.raw: dict[str, bytes] = {}
        #: The server that ended before it was stopped, and how.
        self.died: str | None = None

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._steps)

    def note(self, argv: tuple[str, ...], raw: RawOutput) -> None:
        self._keep(len(self._steps), argv, raw)
        self._steps.append(argv)

    def serve(self, argv: tuple[str, ...], running: Running) -> Running:
        self._servers.append((len(self._steps), argv, running))
        self._steps.append(argv)
        return running

    def end(self) -> None:
        """Stop the servers in reverse order."""
        while self._servers:
            number, argv, running = self._servers.pop()
            alive = running.alive()
            raw = running.stop()
            self._keep(number, argv, raw)
            if not alive:
                said = (why_failed(raw) if raw.exit_status != 0 else None) or "ended with status 0"
                self.died = f"its server {argv[0]} ended too early: it {said}"

    def __enter__(self) -> Course:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _keep(self, number: int, argv: tuple[str, ...], raw: RawOutput) -> None:
        name = argv[0].rpartition("/")[2]
        self.raw |= {f"steps/{number}-{name}/{part}": data for part, data in raw_parts(raw).items()}


def output_of(session: AgentSession, *, own_load: bool) -> RawOutput:
    return load_output(session.receive("load")) if own_load else exec_output(session.receive("exec"))
