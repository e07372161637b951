# SPDX-License-Identifier: Apache-2.0
"""Output of hackbench (rt-tests): one wall time for all messages."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, quantity, unreadable, whole

_HEAD = re.compile(r"Running in (\w+) mode with (\S+) groups using (\S+) file descriptors each \(== (\S+) tasks\)")
_EACH = re.compile(r"Each sender will pass (\S+) messages of (\S+) bytes")


class HackbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `mode` is "process" or "threaded", `time` the wall time of all messages."""

    mode: str
    groups: int
    tasks: int
    messages: int
    message_bytes: int
    time: Quantity


def read_hackbench(data: bytes, source: str = "stdout") -> HackbenchRun:
    """Parse hackbench's stdout. Raise UnreadableOutput if a line is missing, or there is more than one time."""
    head: tuple[str, int, int] | None = None
    each: tuple[int, int] | None = None
    time: Quantity | None = None
    for line, text in ended_lines(data, source):
        if match := _HEAD.match(text):
            head = (match[1], whole(match[2], source, line, "groups"), whole(match[4], source, line, "tasks"))
        elif match := _EACH.match(text):
            each = (whole(match[1], source, line, "messages"), whole(match[2], source, line, "bytes"))
        elif text.startswith("Time:"):
            if time is not None:
                raise unreadable(source, line, text, "the only time of the run")
            time = quantity(text.removeprefix("Time:"), "s", source, line, "the time in seconds")
    if head is None or each is None or time is None:
        missing = "'Running in … mode'" if head is None else "'Each sender …'" if each is None else "'Time: …'"
        raise unreadable(source, None, "", f"complete output of hackbench: the line {missing} is missing")
    return HackbenchRun(mode=head[0], groups=head[1], tasks=head[2], messages=each[0], message_bytes=each[1], time=time)
