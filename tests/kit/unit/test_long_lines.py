# SPDX-License-Identifier: Apache-2.0
"""Whatever a file holds, the time to read it grows with its length, and so does the memory.

Longer and more lines are in tests/full/test_long_lines.py.
"""

from __future__ import annotations

from functools import partial

import pytest

import ktrial
from ktrial.kernels.images.kernel_module import _soft
from ktrial.tuning.origin.formats.lines import LONGEST_LINE_BYTES, ForeignFormatError, split_lines
from ktrial.tuning.origin.formats.pasted_list import parse
from tests.support.attacks import Used, attacks, patterns
from tests.support.long_lines import CAP_S, at_most, few, slower
from tests.support.readers import modules_without, readers

READERS = readers()
SIZES = (16 << 10, 128 << 10)
PATTERN_SIZES = (1000, 8000)
#: Expressions whose texts are cut first.
SHORT = {"ktrial.tuning.state.lock_holder._SECRETS"}
PATTERNS = list({used.question: used for used in patterns(ktrial) if used.place not in SHORT}.values())
#: Modules of those places that read no text that somebody else wrote: what others share, and tables.
WITHOUT = {
    *("recordings.frames.lines", "recordings.frames.statistics"),
    *("recordings.atop_program", "recordings.cpuidle", "recordings.latency"),
    *(
        "recordings.blocks",
        "recordings.frame_loop",
        "recordings.merge",
        "recordings.recording",
        "recordings.usage",
        "recordings.watching",
    ),
    # In tests/kernels/unit/test_hostile_archives.py: it takes what was opened.
    "kit.formats.cpio",
}


def test_all_readers_are_found() -> None:
    assert modules_without() == WITHOUT


@pytest.mark.parametrize("name", sorted(READERS))
def test_time_and_memory_grow_with_the_length(name: str) -> None:
    for what, make in few(name):
        told = slower(READERS[name], make, SIZES)
        assert told is None, f"{name}, {what}: {told}"


def attack(begin: str, unit: str, ending: str, size: int) -> bytes:
    """A text of about that size."""
    return f"{begin}{unit * (size // len(unit))}{ending}".encode()


@pytest.mark.parametrize("used", PATTERNS, ids=lambda used: f"{used.place}-{used.way}")
def test_no_expression_looks_twice(used: Used) -> None:
    for begin, unit, ending in attacks(used.pattern):
        told = slower(lambda data: used.ask(data.decode()), partial(attack, begin, unit, ending), PATTERN_SIZES)
        assert told is None, f"{used.place} {used.pattern.pattern!r} on {begin!r} {unit!r}… {ending!r}: {told}"


def test_a_line_that_is_too_long_is_named() -> None:
    lines, unread = split_lines(b"a\n" + b"b" * (LONGEST_LINE_BYTES + 1) + b"\nc" * LONGEST_LINE_BYTES, "f")
    assert [line.number for line in lines[:2]] == [1, 3]
    (told,) = unread
    assert (told.line_number, told.reason) == (2, "longer than 16384 bytes")
    assert split_lines(b"b" * LONGEST_LINE_BYTES, "f")[1] == []


@pytest.mark.parametrize(
    "value, before",
    [
        ("pre: a-b c post: d", ["a_b", "c"]),
        ("pre:a post:b", ["a"]),
        ("post: b pre: a", ["a"]),
        ("a b", []),
        ("", []),
        ("pre:" + " " * 200_000 + "x!", ["x!"]),
    ],
)
def test_soft_dependencies(value: str, before: list[str]) -> None:
    assert _soft(value) == before


def test_names_of_keys_are_tried_once() -> None:
    with at_most(CAP_S), pytest.raises(ForeignFormatError):
        parse("vm" + "/a" * 200 + "!", "f")
