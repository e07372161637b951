# SPDX-License-Identifier: Apache-2.0
"""The agent's reply to `load`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as

_SOURCE = "the agent's reply"


class LoadReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a load did. A result is None if not measured; `histogram` counts latencies, with nanoseconds as keys."""

    load: str
    parameters: dict[str, Any]
    started_ns: int
    wall_ns: int
    ended: Literal["done", "limit", "told"]
    results: dict[str, Any]
    histogram: dict[str, int] | None = None

    def number(self, name: str) -> int | None:
        """Return the count `name`; None if the load did not measure it. Raise UnreadableOutput for an invalid count."""
        if name not in self.results:
            raise UnreadableOutput(_SOURCE, None, ", ".join(self.results), f"a list of results with {name}")
        value = self.results[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise UnreadableOutput(_SOURCE, None, f"{name}: {value!r}", "a count of 0 or more")
        return value

    def positive(self, name: str) -> int:
        """Return the count `name`. Raise UnreadableOutput if the count is 0 or was not measured."""
        value = self.number(name)
        if not value:
            raise UnreadableOutput(_SOURCE, None, f"{name}: {value!r}", "a count above 0")
        return value


def read_load(data: bytes) -> LoadReply:
    """Parse the JSON of the reply. Raise UnreadableOutput if it is malformed."""
    try:
        return decode_as(data, LoadReply)
    except msgspec.DecodeError as error:
        start = data[:60].decode("utf-8", "backslashreplace")
        raise UnreadableOutput(_SOURCE, None, start, f"a reply to `load` ({error})") from None
