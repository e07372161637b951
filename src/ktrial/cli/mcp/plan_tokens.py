# SPDX-License-Identifier: Apache-2.0
"""Tokens that `plan` gives. Each allows one write of exactly what was planned, unless the machine has changed since."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ktrial.kit import plain_json
from ktrial.kit.errors import Refused

#: Number of valid tokens; one more invalidates the oldest.
_MOST_OPEN = 64
_AGAIN = "call plan again"


class PlannedWrite(NamedTuple):
    """What a token allows: an action with its arguments, and the state of the machine."""

    content: str
    basis: str
    ends_s: float


class PlanTokens:
    """The valid tokens of one session. They exist only in memory, so they end with the session."""

    def __init__(self, life_s: float, now_s: Callable[[], float]) -> None:
        self.life_s = life_s
        self._now_s = now_s
        self._open: dict[str, PlannedWrite] = {}
        self._ended: dict[str, str] = {}

    def give(self, action: str, arguments: Mapping[str, Any], basis: str) -> str:
        while len(self._open) >= _MOST_OPEN:
            self._end(next(iter(self._open)), "expired")
        token = secrets.token_urlsafe(32)
        self._open[_digest(token)] = PlannedWrite(_content(action, arguments), basis, self._now_s() + self.life_s)
        return token

    def take(self, token: str, action: str, arguments: Mapping[str, Any]) -> PlannedWrite:
        """Return what a token allows, and invalidate the token even if the write fails later.

        Raise Refused for an invalid token, or for a token that belongs to another write.
        """
        key = _digest(token)
        found = self._open.get(key)
        if found is None:
            raise Refused(f"this token is {self._ended.get(key, 'unknown here')}", hint=_AGAIN)
        if self._now_s() > found.ends_s:
            self._end(key, "expired")
            raise Refused("this token is expired", hint=_AGAIN)
        self._end(key, "already used")
        if found.content != _content(action, arguments):
            raise Refused("this token belongs to another write, and is used up", hint=_AGAIN)
        return found

    def _end(self, key: str, how: str) -> None:
        del self._open[key]
        self._ended[key] = how
        while len(self._ended) > 10 * _MOST_OPEN:
            del self._ended[next(iter(self._ended))]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _content(action: str, arguments: Mapping[str, Any]) -> str:
    return plain_json.document({"action": action, **dict(sorted(arguments.items()))}).decode()


def refuse_knobs(knobs: Sequence[str | None], allowed: Sequence[str]) -> None:
    """Raise Refused unless there are knobs and each knob fits a pattern that the operator allows.

    Also refuse kernel arguments (`boot:…`), and steps without a knob (None).
    """
    if not knobs:
        raise Refused("the plan changes no value", hint="plan another setting")
    for knob in knobs:
        if knob is None:
            raise Refused("the plan has a step that belongs to no knob", hint="ask the operator to carry out the plan")
        if knob.startswith("boot:"):
            raise Refused(f"{knob} takes effect at the next boot", hint="ask the operator to carry out the plan")
        names = {knob, knob.partition("@")[0]}
        if not any(fnmatchcase(name, pattern) for name in names for pattern in allowed):
            hint = f"ask the operator to start ktrial mcp with --knob '{knob}'"
            raise Refused(f"agents may not write {knob} here", hint=hint)
