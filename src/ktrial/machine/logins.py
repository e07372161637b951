# SPDX-License-Identifier: Apache-2.0
"""Readers of `loginctl list-sessions --no-legend`, and of `loginctl show-session` with the properties in PROPERTIES."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import decode_output, numbered, unreadable

PROPERTIES = ("Id", "Class", "Type", "State", "Name", "IdleHint", "IdleSinceHint")
_GRAPHICAL = {"x11", "wayland", "mir"}
_LAST_US = 1 << 63


class LoginSession(msgspec.Struct, frozen=True, kw_only=True):
    """A user's login session. `since_unix_us` is the last sign of activity that logind knows; None if unknown.

    For a text session, this is when its terminal was last read from; for a graphical one, when the desktop last
    changed `idle`.
    """

    id: str
    kind: str
    name: str
    graphical: bool
    idle: bool
    since_unix_us: int | None

    def idle_s(self, now_us: int) -> float | None:
        if self.graphical and not self.idle:
            return 0.0
        return None if self.since_unix_us is None else max(0.0, (now_us - self.since_unix_us) / 1e6)


def read_session_ids(data: bytes, source: str) -> tuple[str, ...]:
    found = []
    for number, line in numbered(data, source) if data.strip() else ():
        words = line.split()
        if words and not re.fullmatch(r"[A-Za-z0-9_]+", words[0], re.ASCII):
            raise unreadable(source, number, line, "a line that begins with the id of a session")
        found += words[:1]
    return tuple(found)


def read_sessions(data: bytes, source: str) -> tuple[LoginSession, ...]:
    """Return users' sessions without greeters, services and closing sessions. Raise UnreadableOutput for other text."""
    text = decode_output(data, source)
    sessions = [_fields(block, source) for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]
    if not sessions:
        raise unreadable(source, None, text[:60], "a list of properties of sessions")
    people = [one for one in sessions if one["Class"] == "user" and one["State"] in {"active", "online"}]
    return tuple(_session(one, source) for one in people if one["Type"] in {*_GRAPHICAL, "tty"})


def _fields(block: str, source: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.splitlines())
    found = {name.strip(): value.strip() for name, _, value in pairs}
    for name in PROPERTIES:
        if name not in found:
            raise unreadable(source, None, block[:60], f"a session with the property {name}")
    return found


def _session(fields: dict[str, str], source: str) -> LoginSession:
    since, hint = fields["IdleSinceHint"], fields["IdleHint"]
    if not since.isascii() or not since.isdecimal() or len(since) > 20 or int(since) >= _LAST_US:
        raise unreadable(source, None, since, "a time in microseconds")
    if hint not in {"yes", "no"}:
        raise unreadable(source, None, hint, "yes or no")
    return LoginSession(
        id=fields["Id"],
        kind=fields["Type"],
        name=fields["Name"],
        graphical=fields["Type"] in _GRAPHICAL,
        idle=hint == "yes",
        since_unix_us=int(since) or None,
    )
