# SPDX-License-Identifier: Apache-2.0
"""What a verbose build of a kernel says that it ran."""

from __future__ import annotations

import re
import shlex

from ktrial.formats.tool_output import numbered, unreadable

_COMPILED = re.compile(r"  (?:CC|AS|HOSTCC|RUSTC(?: L)?)(?: \[M\])? +\S+$")
_KEPT = re.compile(r"(?:saved)?cmd_\S+ := (.+)$")


def read_compile(data: bytes, target: str, source: str = "make V=1") -> tuple[str, ...]:
    """The command that compiled `target` (`lib/ctype.o`), the last one where there are several."""
    found: tuple[str, ...] | None = None
    for line, text in numbered(data, source):
        if f"-o {target} " not in f"{text} ":
            continue
        try:
            words = shlex.split(text.split(";")[0])
        except ValueError:
            raise unreadable(source, line, text, "a command line") from None
        if "-c" in words:
            found = tuple(words)
    if found is None:
        raise unreadable(source, None, "the whole text", f"a build of {target}: no command writes it")
    return found


def marches(argv: tuple[str, ...]) -> tuple[str, ...]:
    """All -march of a command, in order; the last one counts."""
    return tuple(word for word in argv if word.startswith("-march="))


def compiled(line: str) -> bool:
    """Whether a line of a build that is not verbose tells of a source that was compiled."""
    return bool(_COMPILED.match(line))


def read_cmd_file(data: bytes, source: str) -> tuple[str, ...]:
    """The command that kbuild kept of an object (`lib/.ctype.o.cmd`)."""
    for line, text in numbered(data, source):
        match = _KEPT.match(text)
        if match is None:
            continue
        try:
            return tuple(shlex.split(match[1].split(" ; ")[0]))
        except ValueError:
            raise unreadable(source, line, text, "a command line") from None
    raise unreadable(source, None, "the whole file", "what kbuild keeps of an object: it has no line cmd_… :=")


def last_flag(argv: tuple[str, ...], begin: str) -> str | None:
    """What follows `begin` in the last word of a command that begins so."""
    return next((word.removeprefix(begin) for word in reversed(argv) if word.startswith(begin)), None)


def read_cache_log(data: bytes, source: str = "ccache's log") -> tuple[int, int]:
    """(hits, misses) of ccache's log of statistics: a line for each file, and what came of it."""
    words = [text.strip() for _, text in numbered(data, source) if not text.startswith("#")]
    hits = sum(word in ("direct_cache_hit", "preprocessed_cache_hit") for word in words)
    return hits, words.count("cache_miss")
