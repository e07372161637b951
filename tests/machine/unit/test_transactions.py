# SPDX-License-Identifier: Apache-2.0
"""Replies about transactions are decoded as the agent writes them: the session that its own tests hold it to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import AgentError
from ktrial.kit.json_bytes import Base64
from ktrial.machine.transactions import (
    Applied,
    PlanReply,
    RevertReply,
    Status,
    VerifyReply,
    decode_reply,
    status,
    text_of,
)
from tests.support.machine import FakeMachine

FORMATS = Path(__file__).parents[2] / "golden" / "formats"
SHAPES: dict[str, type[msgspec.Struct]] = {
    "plan": PlanReply,
    "apply": Applied,
    "verify": VerifyReply,
    "status": Status,
    "revert": RevertReply,
    "recover": RevertReply,
}
#: Fields that no reply of the golden session has: of leases that run, of what is unsettled, of agents that are lost.
SELDOM = {"unfinished", "left_alone", "left_ms", "deadline_unix_ms", "seconds", "sources", "traces", "file"}


def replies() -> Iterator[tuple[str, dict[str, Any]]]:
    asked = [json.loads(line) for line in (FORMATS / "session.requests.jsonl").read_text().splitlines()[:20]]
    told = [json.loads(line) for line in (FORMATS / "session.replies.jsonl").read_text().splitlines()[:20]]
    for request, reply in zip(asked, told, strict=True):
        if request["do"] in SHAPES and "ok" in reply:
            yield request["do"], reply["ok"]


@pytest.mark.parametrize("do, answer", list(replies()))
def test_nothing_of_a_reply_is_passed_over(do: str, answer: dict[str, Any]) -> None:
    reply = decode_reply(do, answer, SHAPES[do])
    assert keys(answer) <= keys(json.loads(msgspec.json.encode(reply)))


def test_every_field_is_one_of_the_agents() -> None:
    told = set[str]().union(*(keys(answer) for _, answer in replies()))
    types = set[str]().union(*(keys(msgspec.json.schema(shape), "properties") for shape in SHAPES.values()))
    assert types - told == SELDOM


def keys(value: Any, below: str | None = None) -> set[str]:
    """The names of all fields, or of those that a schema lists."""
    if isinstance(value, list):
        return set().union(*(keys(item, below) for item in value))
    if not isinstance(value, dict):
        return set()
    own = set(value.get(below, ()) if below else value)
    return own.union(*(keys(item, below) for item in value.values())) - {"base64"}


def test_an_answer_of_another_shape_is_refused() -> None:
    machine = FakeMachine({})
    machine.answers["status"] = {"transactions": [{"transaction": "seven"}]}
    with pytest.raises(AgentError, match=r"cannot read the agent's reply to 'status': .*\$\.transactions"):
        status(machine)


@pytest.mark.parametrize("value, text", [(None, None), (" 10\n", "10"), (Base64("/wo="), "\ufffd")])
def test_bytes_are_shown_as_text(value: str | Base64 | None, text: str | None) -> None:
    assert text_of(value) == text
