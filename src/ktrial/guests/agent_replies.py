# SPDX-License-Identifier: Apache-2.0
"""Replies of the agent in batch mode: one line of JSON per request, matched by number."""

from __future__ import annotations

from typing import Any

import msgspec

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as

_SOURCE = "the agent's replies"
_SHOWN = 60


class AgentSaid(msgspec.Struct):
    """The error of a failed request."""

    kind: str
    message: str
    hint: str | None = None


class Reply(msgspec.Struct):
    """A reply to the request with the number `id`. It has either `ok` or `error`."""

    id: int | None
    ok: dict[str, Any] | None = None
    error: AgentSaid | None = None


_DECODER = msgspec.json.Decoder(Reply)


def read_replies(data: bytes) -> dict[int, Reply]:
    """Return the replies by number. Skip a truncated last line. Raise UnreadableOutput for any other invalid line."""
    found: dict[int, Reply] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            reply = decode_as(line, _DECODER)
        except msgspec.DecodeError as error:
            shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
            raise UnreadableOutput(_SOURCE, number, shown, f"a reply ({error})") from None
        if reply.id is None or (reply.ok is None) == (reply.error is None):
            shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
            raise UnreadableOutput(_SOURCE, number, shown, "a reply with a number and either `ok` or `error`")
        found[reply.id] = reply
    return found
