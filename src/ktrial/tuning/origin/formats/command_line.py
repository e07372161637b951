# SPDX-License-Identifier: Apache-2.0
"""The kernel command line: `/proc/cmdline`, a pasted line, or `GRUB_CMDLINE_LINUX*` lines of `/etc/default/grub`.

The kernel treats `-` and `_` in parameter names as equal. Here names of module parameters (`module.parameter`) are
spelled with `_`, others as written. Words after ` -- ` belong to init and are ignored.
"""

from __future__ import annotations

import re

from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Line,
    Unread,
    in_order,
    is_comment,
    require_something,
    split_lines,
    unquoted,
    unread_line,
)

_GRUB = re.compile(r"\s*(?:export\s+)?GRUB_CMDLINE_LINUX(?:_DEFAULT|_RECOVERY)?\+?=(.*)")
#: The variable to which a drop-in of GRUB appends.
_SELF = re.compile(r"\$\{?GRUB_CMDLINE_LINUX(?:_DEFAULT|_RECOVERY)?\}?")
_NAME = re.compile(r"[A-Za-z0-9_.,:/@+*\[\]-]+")


def canonical(name: str) -> str:
    """Return the spelling used here: names of module parameters with `_`, others unchanged."""
    return name.replace("-", "_") if "." in name else name


def is_name(name: str) -> bool:
    """Return whether the kernel could accept this as a parameter's name."""
    return _NAME.fullmatch(name) is not None


def same_name(left: str, right: str) -> bool:
    return left.replace("-", "_") == right.replace("-", "_")


def parse(data: str | bytes, file: str) -> FileReading:
    """Return the parameters of a kernel command line. If lines set `GRUB_CMDLINE_LINUX*`, only these lines count."""
    lines, unread = split_lines(data, file)
    lines = [line for line in lines if not is_comment(line.text)]
    grub = [Line(line.number, unquoted(found[1].strip())) for line in lines if (found := _GRUB.fullmatch(line.text))]
    assignments: list[Assignment] = []
    for line in grub or lines:
        found_here, failures = parse_line(line.text, file, line.number)
        assignments.extend(found_here)
        unread.extend(failures)
    require_something(file, len(assignments), unread, "a kernel command line")
    return FileReading(file=file, assignments=tuple(assignments), unread=in_order(unread))


def parse_line(text: str, file: str, number: int) -> tuple[list[Assignment], list[Unread]]:
    assignments: list[Assignment] = []
    unread: list[Unread] = []
    for word in split_words(text):
        if word == "--":
            break
        if _SELF.fullmatch(word):
            continue
        name, equals, value = word.partition("=")
        if not is_name(name):
            unread.append(unread_line(file, number, word, f"{name!r} is not the name of a kernel parameter"))
            continue
        assignments.append(
            Assignment(
                kind="boot",
                name=canonical(name),
                value=unquoted(value) if equals else None,
                file=file,
                line_number=number,
                text=word,
            )
        )
    if text.count('"') % 2:
        unread.append(unread_line(file, number, text, 'unclosed ": the kernel takes the rest as one word'))
    return assignments, unread


def split_words(text: str) -> list[str]:
    """Return the words as the kernel splits them: quoted spaces do not end a word, quotes around a word are removed."""
    words: list[str] = []
    word, quoted = "", False
    for character in text:
        if character == '"':
            quoted = not quoted
        if character.isspace() and not quoted:
            words.append(word)
            word = ""
        else:
            word += character
    words.append(word)
    return [plain for word in words if (plain := unquoted(word) if word.startswith('"') else word)]
