# SPDX-License-Identifier: Apache-2.0
"""Reads the commands from the output of a verbose kernel build."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable
from ktrial.kit.json_strict import decode_as
from ktrial.tuning.origin.formats.words import split_words


class _Counts(msgspec.Struct):
    counts: dict[str, int]


class _SccacheStats(msgspec.Struct):
    cache_hits: _Counts
    cache_misses: _Counts


class _SccacheTold(msgspec.Struct):
    stats: _SccacheStats


_COMPILED = re.compile(r"  (?:CC|AS|HOSTCC|RUSTC(?: L)?)(?: \[M\])? +\S+$")
_KEPT = re.compile(r"(?:saved)?cmd_\S+ := (.+)$")


def read_compile(data: bytes, target: str, source: str = "make V=1") -> tuple[str, ...]:
    """Return the last command that compiled `target`, such as `lib/ctype.o`. Raise UnreadableOutput if none did."""
    found = [words for words in _commands(data, (f"-o {target} ",), source) if "-c" in words]
    if not found:
        raise unreadable(source, None, "", f"a build of {target}: no command writes that file")
    return found[-1]


def read_rust_compile(data: bytes, target: str, source: str = "make V=1") -> tuple[str, ...]:
    """Return the last rustc command that wrote `target`, such as `rust/core.o`. Raise UnreadableOutput if none did."""
    commands = _commands(data, (f"--emit=obj={target} ", f"-o {target} "), source)
    found = [words for words in commands if any(word.rpartition("/")[2].startswith("rustc") for word in words)]
    if not found:
        raise unreadable(source, None, "", f"a build of {target}: no rustc command writes that file")
    return found[-1]


def _commands(data: bytes, marks: tuple[str, ...], source: str) -> Iterator[tuple[str, ...]]:
    for line, text in numbered(data, source):
        if any(mark in f"{text} " for mark in marks):
            try:
                yield tuple(split_words(text.split(";")[0]))
            except ValueError:
                raise unreadable(source, line, text, "a command line") from None


def marches(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return all -march flags of a command, in order; the last flag takes effect."""
    return tuple(word for word in argv if word.startswith("-march="))


def compiled(line: str) -> bool:
    """Return whether a line of a non-verbose build reports a compiled source."""
    return bool(_COMPILED.match(line))


def read_cmd_file(data: bytes, source: str) -> tuple[str, ...]:
    """Return the command in a .cmd file of kbuild, such as `lib/.ctype.o.cmd`."""
    for line, text in numbered(data, source):
        match = _KEPT.match(text)
        if match is None:
            continue
        try:
            return tuple(split_words(match[1].split(" ; ")[0]))
        except ValueError:
            raise unreadable(source, line, text, "a command line") from None
    raise unreadable(source, None, "", "a .cmd file of kbuild: the line cmd_… := is missing")


def last_flag(argv: tuple[str, ...], begin: str) -> str | None:
    """Return the rest of the last word that begins with `begin`; None if no word does."""
    return next((word.removeprefix(begin) for word in reversed(argv) if word.startswith(begin)), None)


def read_cache_log(data: bytes, source: str = "ccache's log") -> tuple[int, int]:
    """Return (hits, misses) from ccache's statistics log, which has one line for each result."""
    words = [text.strip() for _, text in numbered(data, source) if not text.startswith("#")]
    hits = sum(word in ("direct_cache_hit", "preprocessed_cache_hit") for word in words)
    return hits, words.count("cache_miss")


def read_sccache(data: bytes, source: str = "sccache --show-stats") -> tuple[int, int]:
    """Return (hits, misses) since the sccache server was started."""
    try:
        stats = decode_as(data, _SccacheTold).stats
    except msgspec.DecodeError as error:
        raise unreadable(source, None, "", f"sccache statistics as JSON: {error}") from None
    return sum(stats.cache_hits.counts.values()), sum(stats.cache_misses.counts.values())


def rust_cpus(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return all target CPUs of a rustc command, in order; the last CPU takes effect."""
    joined = [f"-C{after}" if word == "-C" else word for word, after in zip(argv, (*argv[1:], ""), strict=True)]
    return tuple(word.removeprefix("-Ctarget-cpu=") for word in joined if word.startswith("-Ctarget-cpu="))
