# SPDX-License-Identifier: Apache-2.0
"""Read the kernel's log before and after a run."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from ktrial.kit.errors import BadInput, UnreadableOutput
from ktrial.kit.json_bytes import read_bytes
from ktrial.kit.toml_files import BUILT_IN, Place, read_toml
from ktrial.machine.kernel_log import KernelLog, KernelLogDelta, LogPattern, new_lines, read_kmsg
from ktrial.machine.ports import Machine


class _Lines(msgspec.Struct, forbid_unknown_fields=True):
    line: list[LogPattern]


@cache
def log_patterns() -> tuple[LogPattern, ...]:
    path = BUILT_IN / "kernel_log.toml"
    found = tuple(read_toml(path, _Lines).line)
    for number, entry in enumerate(found):
        try:
            re.compile(entry.pattern)
        except re.error as error:
            bad = BadInput(f"{entry.pattern!r} is not a regular expression: {error}", hint="correct the pattern")
            raise Place(path, f"$.line[{number}]").mended(bad) from None
    return found


class KernelLogWatch:
    """Reads the log before and after a run, and finds new lines."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._before = KernelLog(unreadable="not read before the run")

    def begin(self) -> None:
        self._before = look(self._machine)

    def end(self) -> KernelLogDelta:
        newest = self._before.newest
        return new_lines(self._before, look(self._machine, 0 if newest is None else newest + 1), log_patterns())


def look(machine: Machine, start: int | None = None) -> KernelLog:
    """Return the log with the records from number `start` on; without `start`, only its record numbers."""
    answer = machine.request("kernel_log", **({} if start is None else {"from": start}))
    if "unreadable" in answer:
        return KernelLog(unreadable=answer["unreadable"])
    try:
        records = read_kmsg(read_bytes(answer["log"]))
    except UnreadableOutput as error:
        return KernelLog(unreadable=error.message)
    return KernelLog(oldest=answer["oldest"], newest=answer["newest"], records=records, truncated=answer["truncated"])
