# SPDX-License-Identifier: Apache-2.0
"""The progress of a kernel build: on a terminal a line that is updated in place, elsewhere a new line at intervals."""

from __future__ import annotations

import os
import sys

from ktrial.bench.text import duration
from ktrial.kit.console import LiveLines, is_live
from ktrial.kit.streams import draw, tell

#: Seconds between two updates on a terminal, and between two lines elsewhere.
_DRAWN_EACH_S, _TOLD_EACH_S = 0.5, 30.0


class BuildProgress:
    """Shows the progress of a build. `expected` estimates the number of objects; `before` counts earlier objects."""

    def __init__(self, expected: int, before: int = 0) -> None:
        self._expected = expected
        self.before = before
        self._live = is_live(sys.stderr, os.environ)
        self._lines = LiveLines(lambda text: draw(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))
        self._told_s = 0.0

    def __call__(self, objects: int, seconds: float) -> None:
        each_s = _DRAWN_EACH_S if self._live else _TOLD_EACH_S
        if seconds - self._told_s < each_s:
            return
        self._told_s = seconds
        line = progress_line(objects, self.before, self._expected, seconds)
        if self._live:
            self._lines.draw([line])
        else:
            tell(sys.stderr, f"{line}\n")

    def end(self) -> None:
        if self._live:
            self._lines.draw([])


def progress_line(objects: int, before: int, expected: int, seconds: float) -> str:
    """Return `812 of about 1780 objects, 5m 10s, about 6m left`, or `812 objects, 5m 10s` if `expected` is 0."""
    done = before + objects
    if not expected:
        return f"{done} objects, {duration(seconds)}"
    if done >= expected or not objects:
        return f"{done} objects, {duration(seconds)}; linking, or more objects than estimated"
    left_s = (expected - done) * seconds / objects
    return f"{done} of about {expected} objects, {duration(seconds)}, about {duration(left_s)} left"
