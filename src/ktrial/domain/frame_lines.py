# SPDX-License-Identifier: Apache-2.0
"""Frame or latency times in the lines of any log, by a regular expression with a named group for the unit."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

import msgspec

from ktrial.domain.errors import BadInput
from ktrial.domain.recording import Frames

#: Names of the group that holds the time, and what it is multiplied by.
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RATE = "fps"
#: No frame takes longer.
_LONGEST_S = 3600.0


class Line(msgspec.Struct, frozen=True):
    """A line of a log, and when it was read on the monotonic clock."""

    at_ns: int
    text: str


class FramePattern:
    """A regular expression with one of the groups `s`, `ms`, `us`, `ns` or `fps`."""

    def __init__(self, text: str) -> None:
        """Raises BadInput for one that cannot tell a time."""
        try:
            self._expression = re.compile(text)
        except re.error as error:
            raise BadInput(f"--pattern {text!r} is no regular expression: {error}") from None
        known = (*_UNITS, _RATE)
        named = [name for name in self._expression.groupindex if name in known]
        if len(named) != 1:
            raise BadInput(
                f"--pattern {text!r} has {len(named)} groups that name a unit; it needs one",
                hint=r"such as  frame (?P<ms>[\d.]+) ms  ; units are " + ", ".join(known),
            )
        self._unit = named[0]
        self.text = text

    def duration_s(self, line: str) -> float | None:
        """The time that a line tells; None when it tells none."""
        match = self._expression.search(line)
        if match is None or match[self._unit] is None:
            return None
        try:
            value = float(match[self._unit].replace(",", "."))
        except ValueError:
            return None
        if self._unit == _RATE:
            return 1 / value if value > 0 else None
        duration_s = value * _UNITS[self._unit]
        return duration_s if 0 <= duration_s <= _LONGEST_S else None


def frames_of(lines: Sequence[Line], pattern: FramePattern, zero_ns: int, clock_error_s: float, file: str) -> Frames:
    """The frames that the lines tell: each ended when its line was read. Raises BadInput where none does."""
    found = [(line.at_ns, pattern.duration_s(line.text)) for line in lines]
    told = [(at_ns, duration_s) for at_ns, duration_s in found if duration_s is not None]
    if not told:
        example = f"; the first is {lines[0].text[:60]!r}" if lines else ""
        raise BadInput(
            f"{file}: --pattern {pattern.text!r} fits none of {len(lines)} lines that were written meanwhile{example}",
            hint="the recording itself is kept; read it with the log and another pattern",
        )
    return Frames(
        kind="frame",
        source="frames",
        ends_s=array("d", ((at_ns - zero_ns) / 1e9 for at_ns, _ in told)),
        durations_s=array("d", (duration_s for _, duration_s in told)),
        clock_error_s=clock_error_s,
    )
