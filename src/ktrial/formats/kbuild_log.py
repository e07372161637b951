# SPDX-License-Identifier: Apache-2.0
"""What a verbose build of a kernel says that it ran."""

from __future__ import annotations

import shlex

from ktrial.formats.tool_output import numbered, unreadable


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
