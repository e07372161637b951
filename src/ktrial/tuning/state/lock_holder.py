# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock, from what the kernel shows of it; what the holder itself says is for messages only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

#: A lock that is held; one that is waited for has an arrow before its kind.
_HELD = re.compile(r"\d+: FLOCK +\w+ +\w+ +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.ASCII)
_SECRETS = re.compile(r"(://[^\s/@:]*:)[^\s@]+(?=@)|(password=)[^\s&]+", re.IGNORECASE)
_STARTERS = ("/ktrial/__main__.py", "/bin/ktrial")
_MODULE = ("-m", "ktrial")
_MOST_CHARACTERS = 120
_MOST_LOOKED_AT = 4096


class LockedFile(msgspec.Struct, frozen=True):
    """The file that a lock is on, as the kernel numbers it."""

    major: int
    minor: int
    inode: int


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process as it is told to people. None and nothing are what this user may not see."""

    pid: int
    user: str | None = None
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    started: str | None = None


def holders(locks: str, file: LockedFile) -> tuple[int, ...]:
    """Processes that hold a lock on the file, out of the text of `/proc/locks`; only those that this one can see."""
    found = []
    for line in locks.splitlines():
        match = _HELD.match(line)
        if match and LockedFile(int(match[2], 16), int(match[3], 16), int(match[4])) == file:
            found.append(int(match[1]))
    return tuple(found)


def told_process(process: Process) -> str:
    """Return the process in words: its number, user and start, its command, and the store where that can be told."""
    parts = [f"process {process.pid}{f' of {_clean(process.user)}' if process.user else ''}"]
    if process.started is not None:
        parts.append(f"since {process.started}")
    words = _without_interpreter(process.words)
    if words:
        parts.append(f"`{_clean(shlex.join(words))}`")
    store = _store(words, process.environment)
    if store is not None:
        parts.append(f"into {_clean(store)}")
    return ", ".join(parts)


def _without_interpreter(words: tuple[str, ...]) -> tuple[str, ...]:
    """`ktrial try …` in place of the interpreter that carries it out."""
    for place, word in enumerate(words):
        if word.endswith(_STARTERS) or words[max(place - 1, 0) : place + 1] == _MODULE:
            return ("ktrial", *words[place + 1 :])
    return words


def _store(words: Sequence[str], environment: Mapping[str, str] | None) -> str | None:
    """Return where a ktrial keeps its runs; None if that is not seen, or this is not a ktrial."""
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
    """Return words of somebody else: without passwords, without what moves a cursor, and not too many."""
    plain = _SECRETS.sub(r"\1\2…", text[:_MOST_LOOKED_AT])
    cut = plain if len(plain) <= _MOST_CHARACTERS else plain[:_MOST_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)
