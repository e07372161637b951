# SPDX-License-Identifier: Apache-2.0
"""The number that a program in a guest ends with: a plain one, or a result in the agent's reply to a load."""

from __future__ import annotations

import math

import msgspec

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as

_SOURCE = "the program's last line"


class _Ok(msgspec.Struct, frozen=True):
    results: dict[str, object]


class _NumberReply(msgspec.Struct, frozen=True):
    ok: _Ok


def read_number(output: bytes, outcome: str) -> float:
    """The outcome in the last line: a number, or of a reply the result called so. Raises UnreadableOutput."""
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else b""
    shown = last[:60].decode(errors="replace")
    value: object = None
    try:
        value = float(last)
    except ValueError:
        try:
            results = decode_as(last, _NumberReply).ok.results
        except msgspec.DecodeError:
            raise UnreadableOutput(_SOURCE, None, shown, "a number, or the agent's reply to a load") from None
        if outcome not in results:
            raise UnreadableOutput(_SOURCE, None, ", ".join(results), f"results with {outcome}") from None
        value = results[outcome]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnreadableOutput(_SOURCE, None, shown, f"{outcome} as a number")
    return float(value)
