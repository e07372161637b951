# SPDX-License-Identifier: Apache-2.0
"""A session with an agent: requests out, typed answers in."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial import __version__
from ktrial.domain.errors import AgentError, Busy, PrivilegeMissing, StalePlan
from ktrial.domain.facts import Fact, FactBook
from ktrial.domain.reading import Reading
from ktrial.host.transport import Transport

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
        self.send(do, **fields)
        return self.receive(do)

    def send(self, do: str, **fields: Any) -> None:
        """Send one request; `receive` gets its reply."""
        self._next_id += 1
        line = msgspec.json.encode({"id": self._next_id, "do": do, **fields}) + b"\n"
        try:
            self._transport.send(line)
        except OSError as error:
            raise self._lost(do, error.strerror or str(error)) from None

    def receive(self, do: str) -> dict[str, Any]:
        """The content of the `ok` of the reply to the request sent last."""
        try:
            answer = self._transport.receive()
        except OSError as error:
            raise self._lost(do, error.strerror or str(error)) from None
        if not answer:
            raise self._lost(do, "it ended without an answer")
        try:
            reply = msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise self._lost(do, f"its answer is not JSON: {error}") from None
        if not isinstance(reply, dict) or ("ok" not in reply and "error" not in reply):
            raise self._lost(do, "its answer is neither ok nor an error")
        if "error" in reply:
            raise _error(reply["error"])
        return dict(reply["ok"])

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Facts named in `only` or below a name in it (`cpu` takes `cpu.model`); all when it is empty."""
        answer = self.request("facts", **({"only": list(only)} if only else {}))
        return FactBook({name: msgspec.convert(fact, Fact) for name, fact in answer["facts"].items()})

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Paths that fit each pattern (`*` within one path component)."""
        if not patterns:
            return {}
        answer = self.request("list", patterns=list(dict.fromkeys(patterns)))
        return {pattern: tuple(paths) for pattern, paths in answer["matches"].items()}

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        """What each file shows; None where there is no such file."""
        if not paths:
            return {}
        answer = self.request("read", paths=list(dict.fromkeys(paths)))
        return {value["path"]: _reading(value) for value in answer["values"]}

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


def read_bytes(value: str | Mapping[str, str]) -> bytes:
    """Bytes of a reply: text, or base64 where they were not UTF-8."""
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


def _reading(value: Mapping[str, Any]) -> Reading | None:
    error = value.get("error")
    if error is None:
        return Reading(data=read_bytes(value["bytes"]), mode=int(value["mode"], 8))
    if error["outcome"] == "absent":
        return None
    if error["outcome"] == "refused":
        return Reading(unreadable=error["message"])
    return Reading(invalid=error["message"])


def _error(error: Mapping[str, Any]) -> AgentError:
    kind, message, hint = error["kind"], error["message"], error.get("hint")
    if kind in _SPECIAL:
        return _SPECIAL[kind](kind, message, hint=hint)
    if kind == "privilege":
        return AgentNeedsRoot(kind, message, hint=hint)
    return AgentError(kind, message, hint=hint)


class AgentNeedsRoot(AgentError, PrivilegeMissing):
    """The agent says that the step needs root."""

    exit_status = 5
