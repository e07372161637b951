# SPDX-License-Identifier: Apache-2.0
"""modprobe.d files: the module parameters of `options` lines.

Other commands (`alias`, `blacklist`, `softdep`, …) set no parameter and are ignored. An `install` or `remove` command
that touches sysctls or files below /sys is reported as unread, because it runs a program.
"""

from __future__ import annotations

import re

from ktrial.tuning.origin.formats.command_line import split_words
from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Line,
    Unread,
    in_order,
    is_comment,
    join_continued,
    require_something,
    split_lines,
    unquoted,
    unread_line,
)

_COMMANDS = frozenset(["alias", "blacklist", "config", "include", "install", "options", "remove", "softdep", "weakdep"])
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def parse(data: str | bytes, file: str) -> FileReading:
    lines, unread = split_lines(data, file)
    assignments: list[Assignment] = []
    recognised = 0
    for line in join_continued(lines):
        if is_comment(line.text):
            continue
        command = line.text.split()[0]
        if command not in _COMMANDS:
            unread.append(unread_line(file, line.number, line.text, f"{command!r} is not a command of modprobe.d"))
            continue
        recognised += 1
        if command == "options":
            found, failures = _options(line, file)
            assignments.extend(found)
            unread.extend(failures)
        elif command in ("install", "remove") and re.search(r"/sys/|/proc/sys|sysctl", line.text):
            reason = "runs a program whose effect is unknown"
            unread.append(unread_line(file, line.number, line.text, reason))
    require_something(file, recognised, unread, "modprobe.d")
    return FileReading(file=file, assignments=tuple(assignments), unread=in_order(unread))


def _options(line: Line, file: str) -> tuple[list[Assignment], list[Unread]]:
    words = split_words(line.text)[1:]
    if len(words) < 2 or not _NAME.fullmatch(words[0]):
        return [], [unread_line(file, line.number, line.text, "options needs a module and at least one parameter")]
    module = words[0].replace("-", "_")
    assignments: list[Assignment] = []
    unread: list[Unread] = []
    shown = line.text.strip()
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not _NAME.fullmatch(name):
            unread.append(unread_line(file, line.number, line.text, f"{name!r} is not the name of a parameter"))
            continue
        assignments.append(
            Assignment(
                kind="module",
                name=f"{module}.{name.replace('-', '_')}",
                value=unquoted(value) if equals else None,
                file=file,
                line_number=line.number,
                text=shown,
            )
        )
    return assignments, unread
