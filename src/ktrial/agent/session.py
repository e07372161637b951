# SPDX-License-Identifier: Apache-2.0
"""A session with an agent: send requests, return typed answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ktrial import __version__
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.transport import BUILD_ANEW, Transport
from ktrial.kit.errors import AgentError, BadRequest, Busy, NoSuchTransaction, PrivilegeMissing, StalePlan
from ktrial.kit.json_bytes import Base64, read_bytes
from ktrial.kit.json_strict import decode_as
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import Reading

T = TypeVar("T")
PROTOCOL_VERSION = 1
_HELLO_LIMIT_S = 10.0
#: Seconds that an agent has to confirm that a request has begun, or to end one on request.
_CONFIRM_LIMIT_S = 60.0
_SPECIAL: dict[str, type[AgentError]] = {"bad-request": BadRequest, "busy": Busy, "conflict": StalePlan}


class AgentSession:
    """An agent reached through a transport; implements `machine.ports.Machine`.

    `hello_limit_s` limits the wait for the first answer.
    """

    def __init__(self, transport: Transport, *, hello_limit_s: float = _HELLO_LIMIT_S) -> None:
        self._transport = transport
        self._hello_limit_s = hello_limit_s
        self._next_id = 0
        self._open = True
        try:
            self.hello = self.request("hello", protocol=PROTOCOL_VERSION, head=__version__)
        except AgentError:
            self.close()
            raise
        if self.hello.get("agent") != __version__:
            self.close()
            raise AgentError(
                "version",
                f"cannot use the agent: it has version {self.hello.get('agent')}, but this is ktrial {__version__}",
                hint=BUILD_ANEW,
            )

    @property
    def is_root(self) -> bool:
        return bool(self.hello.get("role") == "root")

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send one request and return the `ok` content of the reply. Raise AgentError or a subclass."""
        self.send(do, **fields)
        return self.receive(do)

    def send(self, do: str, **fields: Any) -> None:
        """Send one request; `receive` returns its reply."""
        self._next_id += 1
        line = msgspec.json.encode({"id": self._next_id, "do": do, **fields}) + b"\n"
        try:
            self._transport.send(line)
        except OSError as error:
            raise self._lost(do, error.strerror or str(error)) from None

    def wait(self, interrupts: Interrupts) -> None:
        """Wait for the reply to the latest request; raise KeyboardInterrupt on Ctrl-C."""
        self._transport.wait(interrupts)

    def hang_up(self) -> None:
        """End the agent's input; the agent stops what it runs and still replies."""
        self._transport.hang_up()

    def receive(self, do: str) -> dict[str, Any]:
        """Return the `ok` content of the reply to the latest request."""
        # A person who must type a password may take a while; an agent alone answers at once.
        limit_s = self._hello_limit_s if do == "hello" and self._transport.asker is None else None
        return self._content(do, limit_s)

    def receive_begun(self, do: str) -> None:
        """Wait until the agent confirms that the latest request has begun; raise AgentError if the request fails."""
        if not self._reply(do, _CONFIRM_LIMIT_S).begun:
            raise self._lost(do, "the request ended before it began", hangs=True)

    def receive_stopped(self, do: str) -> int | dict[str, Any]:
        """Return the pid of the command, which the agent holds at its start; the reply if the command cannot start."""
        reply = self._reply(do, _CONFIRM_LIMIT_S)
        if reply.pid is not None:
            return reply.pid
        if reply.ok is None:
            raise self._lost(do, "invalid answer (expected a process ID or the program's end)", hangs=True)
        return reply.ok

    @property
    def number(self) -> int:
        return self._next_id

    def receive_next(self, do: str, number: int | None = None) -> Progress | dict[str, Any]:
        """Return the next progress line of request `number` (default: the latest) or, at its end, its `ok` content."""
        reply = self._reply(do, None, number)
        if reply.ok is not None:
            return reply.ok
        if reply.chunk is None and reply.seen is None:
            raise self._lost(do, "invalid answer (expected progress or the end of the request)", hangs=True)
        return Progress(chunk=reply.chunk, seen=reply.seen)

    def receive_last(self, do: str) -> dict[str, Any]:
        return self._content(do, _CONFIRM_LIMIT_S)

    def _content(self, do: str, limit_s: float | None) -> dict[str, Any]:
        ok = self._reply(do, limit_s).ok
        if ok is None:
            raise self._lost(do, "invalid answer (expected `ok` or `error`)", hangs=True)
        return ok

    def _reply(self, do: str, limit_s: float | None, number: int | None = None) -> _Reply:
        try:
            answer = self._transport.receive(limit_s)
        except TimeoutError:
            raise self._lost(do, f"no answer within {limit_s:g} s", hangs=True) from None
        except OSError as error:
            raise self._lost(do, error.strerror or str(error)) from None
        if not answer.endswith(b"\n"):
            raise self._lost(do, "the agent ended without an answer")
        try:
            reply = decode_as(answer, _Reply)
        except msgspec.DecodeError as error:
            raise self._lost(do, f"invalid answer ({error})", hangs=True) from None
        if reply.error is not None:
            raise _error(reply.error)
        if reply.id != (self._next_id if number is None else number):
            raise self._lost(do, "the answer belongs to another request", hangs=True)
        return reply

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        answer = self.request("facts", **({"only": list(only)} if only else {}))
        return FactBook(self._decode_as("facts", answer, _Facts).facts)

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the paths that match each pattern (`*` stays within one path component)."""
        if not patterns:
            return {}
        answer = self.request("list", patterns=list(dict.fromkeys(patterns)))
        return self._decode_as("list", answer, _Matches).matches

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        if not paths:
            return {}
        answer = self.request("read", paths=list(dict.fromkeys(paths)))
        values = self._decode_as("read", answer, _Values).values
        try:
            return {value.path: _reading(value) for value in values}
        except ValueError as error:
            raise self._lost("read", f"invalid answer ({error})") from None

    def _decode_as(self, do: str, answer: Mapping[str, Any], shape: type[T]) -> T:
        try:
            return msgspec.convert(answer, shape)
        except msgspec.ValidationError as error:
            raise self._lost(do, f"invalid answer ({error})") from None

    def close(self) -> None:
        """End the session; the agent also ends the leases that belong to the session."""
        if self._open:
            self._open = False
            self._transport.close()

    def _lost(self, do: str, why: str, *, hangs: bool = False) -> AgentError:
        """End the session and return the error to raise. With `hangs`, do not wait for the agent to end."""
        self._open = False
        status = None
        if hangs:
            self._transport.abandon()
        else:
            status = self._transport.close()
        ended = ""
        if status:
            ended = f" (killed by signal {-status})" if status < 0 else f" (exit status {status})"
        asker = self._transport.asker
        if do == "hello" and asker is not None and not hangs:
            return RootNotGranted(f"{asker} did not start the agent as root{ended}")
        if do == "hello":
            return AgentError("lost", f"cannot use the agent: {why}{ended}", hint=BUILD_ANEW)
        return AgentError(
            "lost",
            f"lost the agent during {do!r}: {why}{ended}",
            hint="run `ktrial recover` to undo what the agent left unfinished",
        )


class _Reply(msgspec.Struct):
    """One line from an agent."""

    id: int | None
    ok: dict[str, Any] | None = None
    begun: bool = False
    pid: int | None = None
    chunk: str | Base64 | None = None
    seen: dict[str, Any] | None = None
    error: _ReplyError | None = None


class Progress(msgspec.Struct):
    """A progress line of a running request: bytes to store, or what the agent currently sees."""

    chunk: str | Base64 | None = None
    seen: dict[str, Any] | None = None


class _ReplyError(msgspec.Struct):
    """The reason why a request failed."""

    kind: str
    message: str
    hint: str | None = None


class RootNotGranted(AgentError, PrivilegeMissing):
    """sudo, doas or pkexec refused or got no answer; that program has already printed why."""

    exit_status = 5

    def __init__(self, message: str) -> None:
        super().__init__(
            "privilege",
            message,
            hint="run the command in a terminal, as a user who may become root; plan, explain, why, doctor and demo "
            "work without root",
        )


class _Facts(msgspec.Struct):
    facts: dict[str, Fact]


class _Matches(msgspec.Struct):
    matches: dict[str, tuple[str, ...]]


class _Unread(msgspec.Struct):
    outcome: str
    message: str


class _Value(msgspec.Struct):
    path: str
    bytes: str | Base64 | None = None
    mode: str | None = None
    error: _Unread | None = None


class _Values(msgspec.Struct):
    values: list[_Value]


def _reading(value: _Value) -> Reading | None:
    if value.error is None:
        if value.bytes is None or value.mode is None:
            raise ValueError(f"{value.path} has neither bytes and mode nor an error")
        return Reading(data=read_bytes(value.bytes), mode=int(value.mode, 8))
    if value.error.outcome == "absent":
        return None
    if value.error.outcome == "refused":
        return Reading(unreadable=value.error.message)
    return Reading(invalid=value.error.message)


def _error(error: _ReplyError) -> AgentError:
    if error.kind == "not-found":
        return NoSuchTransaction(error.kind, error.message, hint="run `ktrial status` to list the active transactions")
    kind = AgentNeedsRoot if error.kind == "privilege" else _SPECIAL.get(error.kind, AgentError)
    return kind(error.kind, error.message, hint=error.hint)


class AgentNeedsRoot(AgentError, PrivilegeMissing):
    """The agent reports that a step needs root."""

    exit_status = 5
