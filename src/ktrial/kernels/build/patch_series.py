# SPDX-License-Identifier: Apache-2.0
"""A `series` file of quilt: patches in order, each with the number of folders that its names begin with."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable
from ktrial.tuning.origin.formats.words import split_words

_STRIP = re.compile(r"-p(\d|ab)")


class Member(msgspec.Struct, frozen=True):
    """A patch of a series."""

    path: str
    strip: int = 1


def read_series(data: bytes, source: str = "series") -> tuple[Member, ...]:
    """Read a series; options but `-pN` and `-pab`, names that lead elsewhere and empty series are refused."""
    found = []
    for number, text in numbered(data, source):
        line = text.split("#")[0].strip() if text.lstrip().startswith("#") or " #" in text else text.strip()
        if not line:
            continue
        try:
            path, *options = split_words(line)
        except ValueError:
            raise unreadable(source, number, text, "the name of a patch") from None
        if path.startswith("/") or ".." in path.split("/"):
            raise unreadable(source, number, path, "a patch below the series: it leads elsewhere")
        strip = 1
        for option in options:
            match = _STRIP.fullmatch(option)
            if match is None:
                raise unreadable(source, number, option, "an option of a series: -p0, -p1, -pab")
            strip = 1 if match[1] == "ab" else int(match[1])
        found.append(Member(path, strip))
    if not found:
        raise unreadable(source, None, "the whole file", "a series: it names no patch")
    return tuple(found)
