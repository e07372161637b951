# SPDX-License-Identifier: Apache-2.0
"""A session with an agent: requests out, typed answers in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ktrial import __version__
from ktrial.domain.errors import AgentError, Busy, PrivilegeMissing, StalePlan
from ktrial.domain.facts import Fact, FactBook
from ktrial.domain.reading import Reading
from ktrial.host.transport import Transport

T = TypeVar("T")
PROTOCOL_VERSION = 1
_SPECIAL: dict[str, type[AgentError]] = {"busy": Busy, "conflict": StalePlan}


class AgentSession:
    """Speaks protocol version 1 over a transport; implements `services.ports.Machine`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._next_id = 0
        self._open = True
        self.hello = self.request("hello", protocol=PROTOCOL_VERSION, head=__version__)
        if self.hello.get("agent") != __version__:
            self.close()
            raise AgentError(
                "version",
                f"the agent is version {self.hello.get('agent')}, this is ktrial {__version__}",
                hint="run ./ktrial once more to build the agent anew, or install both from one wheel",
            )

    @property
    def is_root(self) -> bool:
        """Whether this session reads and writes as root."""
        return bool(self.hello.get("role") == "root")

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send one request and return the content of its `ok`. Raises AgentError and its kin."""
        self._next_id += 1
        line = msgspec.json.encode({"id": self._next_id, "do": do, **fields}) + b"\n"
        try:
            self._transport.send(line)
            answer = self._transport.receive()
        except OSError as error:
            raise self._lost(do, error.strerror or str(error)) from None
        if not answer:
            raise self._lost(do, "it ended without an answer")
        try:
            reply = msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise self._lost(do, f"its answer is not JSON: {error}") from None
        if not isinstance(reply, dict) or not isinstance(reply.get("error", reply.get("ok")), dict):
            raise self._lost(do, "its answer is neither ok nor an error")
        if reply.get("id", self._next_id) not in {None, self._next_id}:
            raise self._lost(do, f"its answer is to request {reply['id']!r}, not to {self._next_id}")
        if "error" in reply:
            raise _error(reply["error"])
        return dict(reply["ok"])

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Facts named in `only` or below a name in it (`cpu` takes `cpu.model`); all when it is empty."""
        answer = self.request("facts", **({"only": list(only)} if only else {}))
        return FactBook(self._typed("facts", answer, _Facts).facts)

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Paths that fit each pattern (`*` within one path component)."""
        if not patterns:
            return {}
        answer = self.request("list", patterns=list(dict.fromkeys(patterns)))
        return self._typed("list", answer, _Matches).matches

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        """What each file shows; None where there is no such file."""
        if not paths:
            return {}
        answer = self.request("read", paths=list(dict.fromkeys(paths)))
        values = self._typed("read", answer, _Values).values
        try:
            return {value.path: _reading(value) for value in values}
        except ValueError as error:
            raise self._lost("read", f"its answer cannot be read: {error}") from None

    def _typed(self, do: str, answer: Mapping[str, Any], shape: type[T]) -> T:
        try:
            return msgspec.convert(answer, shape)
        except msgspec.ValidationError as error:
            raise self._lost(do, f"its answer is not as agreed: {error}") from None

    def close(self) -> None:
        """End the session; leases that end with it are ended by the agent."""
        if self._open:
            self._open = False
            self._transport.close()

    def _lost(self, do: str, why: str) -> AgentError:
        self._open = False
        status = self._transport.close()
        if do == "hello":
            return PrivilegeLost(why, status)
        return AgentError(
            "lost",
            f"the agent was lost during {do!r}: {why}" + (f" (exit status {status})" if status else ""),
            hint="`ktrial recover` finishes what it had begun",
        )


class PrivilegeLost(AgentError, PrivilegeMissing):
    """The agent did not start: mostly sudo that was not allowed or not answered."""

    exit_status = 5

    def __init__(self, why: str, status: int | None) -> None:
        super().__init__(
            "privilege",
            f"the agent could not be started: {why}" + (f" (exit status {status})" if status else ""),
            hint="run it from a terminal where sudo can ask, or as  sudo ./ktrial …",
        )


class _Facts(msgspec.Struct):
    facts: dict[str, Fact]


class _Matches(msgspec.Struct):
    matches: dict[str, tuple[str, ...]]


class _Base64(msgspec.Struct):
    base64: str


class _Unread(msgspec.Struct):
    outcome: str
    message: str


class _Value(msgspec.Struct):
    path: str
    bytes: str | _Base64 | None = None
    mode: str | None = None
    error: _Unread | None = None


class _Values(msgspec.Struct):
    values: list[_Value]


def read_bytes(value: str | _Base64) -> bytes:
    """Bytes of a reply: text, or base64 where they were not UTF-8. Raises ValueError for what is not base64."""
    if isinstance(value, str):
        return value.encode()
    from base64 import b64decode

    return b64decode(value.base64, validate=True)


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


def _error(error: Mapping[str, Any]) -> AgentError:
    kind, message = str(error.get("kind", "unknown")), str(error.get("message", "it did not say why"))
    hint = error["hint"] if isinstance(error.get("hint"), str) else None
    if kind in _SPECIAL:
        return _SPECIAL[kind](kind, message, hint=hint)
    if kind == "privilege":
        return AgentNeedsRoot(kind, message, hint=hint)
    return AgentError(kind, message, hint=hint)


class AgentNeedsRoot(AgentError, PrivilegeMissing):
    """The agent says that the step needs root."""

    exit_status = 5
