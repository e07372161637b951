# SPDX-License-Identifier: Apache-2.0
"""Replies of the agent in batch mode: one line of JSON each, by the number of the request."""

from __future__ import annotations

from typing import Any

import msgspec

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as

_SOURCE = "the agent's replies"
_SHOWN = 60


class AgentSaid(msgspec.Struct):
    """Why a request failed."""

    kind: str
    message: str
    hint: str | None = None


class Reply(msgspec.Struct):
    """One reply: the content of its `ok`, or its error."""

    id: int | None
    ok: dict[str, Any] | None = None
    error: AgentSaid | None = None


_DECODER = msgspec.json.Decoder(Reply)


def read_replies(data: bytes) -> dict[int, Reply]:
    """The replies by number. A last line without its end was cut off and is left out. Raises UnreadableOutput."""
    found: dict[int, Reply] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            reply = decode_as(line, _DECODER)
        except msgspec.DecodeError as error:
            shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
            raise UnreadableOutput(_SOURCE, number, shown, f"a reply: {error}") from None
        if reply.id is None or (reply.ok is None) == (reply.error is None):
            shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
            raise UnreadableOutput(_SOURCE, number, shown, "a reply with a number, and `ok` or `error`")
        found[reply.id] = reply
    return found
