# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial import __version__
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.kit.errors import AgentError, Busy, PrivilegeMissing, StalePlan
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.reading import Reading

HELLO = {"id": 1, "ok": {"agent": __version__, "role": "user"}}


class Script:
    """A transport whose agent says what the test wrote down."""

    def __init__(self, *replies: Any, status: int | None = 0) -> None:
        self._replies = [reply if isinstance(reply, bytes) else json.dumps(reply).encode() + b"\n" for reply in replies]
        self._status = status
        self.sent: list[dict[str, Any]] = []
        self.closed = 0
        self.asker: str | None = None
        self.limits: list[float | None] = []

    def send(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.sent.append(json.loads(line))

    def receive(self, limit_s: float | None = None) -> bytes:
        self.limits.append(limit_s)
        return self._replies.pop(0) if self._replies else b""

    def wait(self, interrupts: Interrupts) -> None:
        pass

    def hang_up(self) -> None:
        pass

    def close(self) -> int | None:
        self.closed += 1
        return self._status

    def abandon(self) -> None:
        self.closed += 1


class Silent(Script):
    """One whose agent says nothing."""

    def receive(self, limit_s: float | None = None) -> bytes:
        raise TimeoutError


def session(*replies: Any) -> tuple[AgentSession, Script]:
    script = Script(HELLO, *replies)
    return AgentSession(script), script


def ok(**fields: Any) -> dict[str, Any]:
    return {"id": 2, "ok": fields}


def test_requests_are_numbered_and_answers_typed() -> None:
    values = [
        {"path": "/a", "bytes": "60\n", "mode": "0644"},
        {"path": "/b", "bytes": {"base64": "/w=="}, "mode": "0444"},
        {"path": "/c", "error": {"outcome": "absent", "message": "no"}},
        {"path": "/d", "error": {"outcome": "refused", "message": "Permission denied"}},
        {"path": "/e", "error": {"outcome": "invalid", "message": "Invalid argument"}},
    ]
    agent, script = session(ok(values=values))
    assert agent.read(["/a", "/b", "/c", "/d", "/e", "/a"]) == {
        "/a": Reading(data=b"60\n", mode=0o644),
        "/b": Reading(data=b"\xff", mode=0o444),
        "/c": None,
        "/d": Reading(unreadable="Permission denied"),
        "/e": Reading(invalid="Invalid argument"),
    }
    assert [request["id"] for request in script.sent] == [1, 2]
    assert script.sent[1]["paths"] == ["/a", "/b", "/c", "/d", "/e"]


def test_nothing_asked_is_nothing_sent() -> None:
    agent, script = session()
    assert (agent.read([]), agent.list([])) == ({}, {})
    assert len(script.sent) == 1


def test_facts_and_lists() -> None:
    agent, _ = session(ok(facts={"cpu.threads": {"value": 2}}), {"id": 3, "ok": {"matches": {"/x/*": ["/x/a"]}}})
    assert agent.facts(["cpu"]).value("cpu.threads") == 2
    assert agent.list(["/x/*"]) == {"/x/*": ("/x/a",)}


@pytest.mark.parametrize(
    "kind, error", [("busy", Busy), ("conflict", StalePlan), ("privilege", PrivilegeMissing), ("io", AgentError)]
)
def test_errors_of_the_agent(kind: str, error: type[Exception]) -> None:
    agent, _ = session({"id": 2, "error": {"kind": kind, "message": "why", "hint": "do this"}})
    with pytest.raises(error) as caught:
        agent.request("apply")
    assert isinstance(caught.value, AgentError)
    assert (caught.value.kind, caught.value.message, caught.value.hint) == (kind, "why", "do this")


def test_an_agent_that_goes_away_is_named_with_the_next_step() -> None:
    agent, script = session()
    script._status = -9
    with pytest.raises(AgentError, match=r"lost the agent during 'apply'.*killed by signal 9") as caught:
        agent.request("apply")
    assert "ktrial recover" in str(caught.value.hint)
    agent.close()
    assert script.closed == 1


def test_another_version_is_refused_and_the_session_closed() -> None:
    script = Script({"id": 1, "ok": {"agent": "0.0.9", "role": "user"}})
    with pytest.raises(AgentError, match=r"version 0\.0\.9") as caught:
        AgentSession(script)
    assert (caught.value.kind, script.closed) == ("version", 1)


def test_what_starts_slowly_is_given_the_time() -> None:
    script = Script(HELLO)
    AgentSession(script, hello_limit_s=77.0)
    assert script.limits == [77.0]
    silent = Silent()
    with pytest.raises(AgentError, match="no answer within 77 s"):
        AgentSession(silent, hello_limit_s=77.0)
    assert silent.closed == 1


def test_an_agent_that_sudo_did_not_start_is_a_matter_of_privilege() -> None:
    script = Script(status=1)
    script.asker = "sudo"
    with pytest.raises(PrivilegeMissing, match="sudo did not start") as caught:
        AgentSession(script)
    assert caught.value.exit_status == 5


def test_an_answer_to_another_request_is_not_taken() -> None:
    agent, _ = session({"id": 7, "ok": {}})
    with pytest.raises(AgentError, match="belongs to another request"):
        agent.request("status")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "ok",
                    "error",
                    "kind",
                    "message",
                    "hint",
                    "facts",
                    "matches",
                    "values",
                    "path",
                    "bytes",
                    "mode",
                    "base64",
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
REPLIES = (
    st.binary(max_size=40)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.sampled_from(["ok", "error"]).flatmap(
        lambda key: JSON.map(lambda value: json.dumps({"id": 2, key: value}).encode())
    )
    | st.sampled_from(["facts", "matches", "values"]).flatmap(
        lambda key: JSON.map(lambda value: json.dumps({"id": 2, "ok": {key: value}}).encode())
    )
    | JSON.map(lambda value: json.dumps({"id": 2, "ok": {"values": [value]}}).encode())
    | st.fixed_dictionaries({"path": st.text(max_size=3)}, optional={"bytes": JSON, "mode": st.text(max_size=4)}).map(
        lambda value: json.dumps({"id": 2, "ok": {"values": [value]}}).encode()
    )
)


@given(REPLIES, st.sampled_from(["facts", "list", "read", "request"]))
def test_any_reply_is_an_answer_or_an_agent_error(reply: bytes, do: str) -> None:
    agent, _ = session(reply)
    paths: Sequence[str] = ["/x"]
    try:
        if do == "facts":
            agent.facts()
        elif do == "list":
            agent.list(paths)
        elif do == "read":
            agent.read(paths)
        else:
            agent.request("status")
    except AgentError as error:
        assert error.message


@given(JSON)
def test_any_hello_is_taken_or_refused(answer: Any) -> None:
    try:
        AgentSession(Script({"id": 1, "ok": answer}))
    except AgentError as error:
        assert error.message


def test_bytes_of_a_reply_that_was_not_typed() -> None:
    assert read_bytes("é\n") == "é\n".encode()
    assert read_bytes({"base64": "/wA="}) == b"\xff\0"
    for wrong in ({"base64": "!"}, {"base64": 1}, {}):
        with pytest.raises(ValueError, match=r".+"):
            read_bytes(wrong)
