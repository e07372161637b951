# SPDX-License-Identifier: Apache-2.0
"""What a verbose build of a kernel says that it ran."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ktrial.formats.tool_output import numbered, unreadable


def read_compile(data: bytes, target: str, source: str = "make V=1") -> tuple[str, ...]:
    """The command that compiled `target` (`lib/ctype.o`), the last one where there are several."""
    found = [words for words in _commands(data, (f"-o {target} ",), source) if "-c" in words]
    if not found:
        raise unreadable(source, None, "the whole text", f"a build of {target}: no command writes it")
    return found[-1]


def read_rust_compile(data: bytes, target: str, source: str = "make V=1") -> tuple[str, ...]:
    """The command of rustc that made `target` (`rust/core.o`), the last one where there are several."""
    commands = _commands(data, (f"--emit=obj={target} ", f"-o {target} "), source)
    found = [words for words in commands if any(word.rpartition("/")[2].startswith("rustc") for word in words)]
    if not found:
        raise unreadable(source, None, "the whole text", f"a build of {target}: no command of rustc's writes it")
    return found[-1]


def _commands(data: bytes, marks: tuple[str, ...], source: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that holds one of the marks."""
    for line, text in numbered(data, source):
        if any(mark in f"{text} " for mark in marks):
            try:
                yield tuple(shlex.split(text.split(";")[0]))
            except ValueError:
                raise unreadable(source, line, text, "a command line") from None


def marches(argv: tuple[str, ...]) -> tuple[str, ...]:
    """All -march of a command, in order; the last one counts."""
    return tuple(word for word in argv if word.startswith("-march="))


def rust_cpus(argv: tuple[str, ...]) -> tuple[str, ...]:
    """All target CPUs of a command of rustc's, in order; the last one counts."""
    joined = [f"-C{after}" if word == "-C" else word for word, after in zip(argv, (*argv[1:], ""), strict=True)]
    return tuple(word.removeprefix("-Ctarget-cpu=") for word in joined if word.startswith("-Ctarget-cpu="))
