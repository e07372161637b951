# SPDX-License-Identifier: Apache-2.0
"""tmpfiles.d files: `w` lines that write a value into a file below /sys or /proc.

systemd-tmpfiles writes `w` and `w+` lines whenever it runs, lines with `!` only at boot. Lines of other types, and
`w` lines for other files, set no knob and are ignored.
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
    unread_line,
)

_TYPE = re.compile(r"[fFwdDevqQpLcbCxXrRzZtThHaA][!\-=~^+$?]*")
_FIELD = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\S+)""")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[0-7]{3}|.)")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "s": " "}
AT_BOOT = "only at boot"


def parse(data: str | bytes, file: str) -> FileReading:
    lines, unread = split_lines(data, file)
    assignments: list[Assignment] = []
    recognised = 0
    for line in lines:
        if is_comment(line.text):
            continue
        kind = line.text.split()[0]
        if not _TYPE.fullmatch(kind):
            unread.append(unread_line(file, line.number, line.text, f"{kind!r} is not a type of tmpfiles.d"))
            continue
        entry = _write(line, kind, file) if kind.startswith("w") else None
        if isinstance(entry, Unread):
            unread.append(entry)
            continue
        recognised += 1
        if entry is not None:
            assignments.append(entry)
    require_something(file, recognised, unread, "tmpfiles.d")
    return FileReading(file=file, assignments=tuple(assignments), unread=in_order(unread))


def _write(line: Line, kind: str, file: str) -> Assignment | Unread | None:
    """Read one `w` line; return None if it writes to another file."""
    fields: list[str] = []
    offset = 0
    while len(fields) < 6 and (found := _FIELD.match(line.text, offset)):
        fields.append(found[1])
        offset = found.end()
    argument = line.text[offset:].strip()
    path = _plain(fields[1]) if len(fields) > 1 else ""
    if path and not path.startswith(("/sys/", "/proc/")):
        return None
    if len(fields) < 6 or not argument:
        reason = "a w line needs seven fields: type, path, mode, user, group, age and the value"
        return unread_line(file, line.number, line.text, reason)
    for text in (path, argument):
        if re.search(r"%[^%]", text.replace("%%", "")):
            return unread_line(file, line.number, line.text, "contains a specifier (%…) with an unknown value")
    return Assignment(
        kind="path",
        name=path.replace("%%", "%"),
        value=_plain(argument).replace("%%", "%").strip(),
        file=file,
        line_number=line.number,
        text=line.text.strip(),
        conditions=(AT_BOOT,) if "!" in kind else (),
        ignore_failure="-" in kind,
    )


def _plain(field: str) -> str:
    if len(field) >= 2 and field[0] == field[-1] and field[0] in "\"'":
        field = field[1:-1]

    def replace(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        if len(code) == 3:
            return chr(int(code, 8))
        return _NAMED.get(code, code)

    return _ESCAPE.sub(replace, field)
