# SPDX-License-Identifier: Apache-2.0
"""Describe the process that holds a lock, from what the kernel shows about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal

import msgspec

#: A held lock in /proc/locks; waiting ones have an arrow before their kind.
_HELD = re.compile(r"\d+: FLOCK +\w+ +(?P<kind>\w+) +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.ASCII)
_SECRETS = re.compile(r"(://[^\s/@:]*:)[^\s@]+(?=@)|(password=)[^\s&]+", re.IGNORECASE)
_STARTERS = ("/ktrial/__main__.py", "/bin/ktrial")
_MODULE = ("-m", "ktrial")
_MOST_CHARACTERS = 120
_MOST_LOOKED_AT = 4096


#: READ locks may have several holders, WRITE locks have one.
LockKind = Literal["READ", "WRITE"]


class LockedFile(msgspec.Struct, frozen=True):
    """The numbers by which the kernel identifies a locked file."""

    major: int
    minor: int
    inode: int


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process to describe. What this user may not see is None or empty."""

    pid: int
    user: str | None = None
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    started: str | None = None


def holders(locks: str, file: LockedFile, kind: LockKind | None = None) -> tuple[int, ...]:
    """Return the visible processes that hold a lock on the file, according to the text of `/proc/locks`.

    If `kind` is None, locks of any kind count.
    """
    found = []
    for line in locks.splitlines():
        match = _HELD.match(line)
        if match and LockedFile(int(match[3], 16), int(match[4], 16), int(match[5])) == file:
            found += [int(match[2])] if kind in {None, match["kind"]} else []
    return tuple(found)


def told_process(process: Process) -> str:
    """Describe a process by number, user, start, command and, if known, its store."""
    parts = [f"process {process.pid}{f' of {_clean(process.user)}' if process.user else ''}"]
    if process.started is not None:
        parts.append(f"since {process.started}")
    words = _without_interpreter(process.words)
    if words:
        parts.append(f"`{_clean(shlex.join(words))}`")
    store = store_of(process)
    if store is not None:
        parts.append(f"into {_clean(store)}")
    return ", ".join(parts)


def _without_interpreter(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return `ktrial try …` in place of the interpreter's command line."""
    for place, word in enumerate(words):
        if word.endswith(_STARTERS) or words[max(place - 1, 0) : place + 1] == _MODULE:
            return ("ktrial", *words[place + 1 :])
    return words


def store_of(process: Process) -> str | None:
    """Return the store of a ktrial process; None if the store is unknown or the process is not ktrial."""
    words, environment = _without_interpreter(process.words), process.environment
    if not words or words[0] != "ktrial":
        return None
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--store":
            return value if equals else next(iter(words[place + 1 :]), None)
    if environment is None:
        return None
    if environment.get("KTRIAL_STORE"):
        return environment["KTRIAL_STORE"]
    state = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME', '~')}/.local/state"
    return f"{state}/ktrial/results.db"


def _clean(text: str) -> str:
    """Return text of another process without passwords and control characters, cut to a sensible length."""
    plain = _SECRETS.sub(r"\1\2…", text[:_MOST_LOOKED_AT])
    cut = plain if len(plain) <= _MOST_CHARACTERS else plain[:_MOST_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)
