# SPDX-License-Identifier: Apache-2.0
"""The INI dialect of TuneD and zram-generator: sections, `key=value`, whole-line comments; case is preserved."""

from __future__ import annotations

import msgspec

from ktrial.tuning.origin.formats.lines import Line, Unread, is_comment, split_lines, unread_line


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One `key=value` line of a section."""

    section: str
    key: str
    value: str
    line_number: int
    text: str


def parse(data: str | bytes, file: str, *, inline_comments: bool) -> tuple[list[str], list[Entry], list[Unread]]:
    """Return sections, entries and unread lines. With `inline_comments` a `#` after white space ends a value."""
    lines, unread = split_lines(data, file)
    sections: list[str] = []
    entries: list[Entry] = []
    for line in lines:
        text = line.text.strip()
        if is_comment(text, "#;"):
            continue
        if text.startswith("["):
            name, closed, rest = text[1:].partition("]")
            if not closed or not name.strip() or not is_comment(rest, "#;"):
                unread.append(unread_line(file, line.number, text, "expected a section such as [name]"))
            else:
                sections.append(name.strip())
            continue
        entry = _entry(line, sections, file, inline_comments=inline_comments)
        if isinstance(entry, Unread):
            unread.append(entry)
        else:
            entries.append(entry)
    return sections, entries, unread


def _entry(line: Line, sections: list[str], file: str, *, inline_comments: bool) -> Entry | Unread:
    text = line.text.strip()
    key, equals, value = text.partition("=")
    if not sections:
        return unread_line(file, line.number, text, "precedes the first section")
    if not equals:
        return unread_line(file, line.number, text, "no = in the line")
    if not key.strip():
        return unread_line(file, line.number, text, "no name before the =")
    if inline_comments:
        for position, character in enumerate(value):
            if character == "#" and (position == 0 or value[position - 1].isspace()):
                value = value[:position]
                break
    return Entry(section=sections[-1], key=key.strip(), value=value.strip(), line_number=line.number, text=text)
