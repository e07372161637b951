# SPDX-License-Identifier: Apache-2.0
"""The live view of `ktrial watch`: drawn in place on a terminal, of what is recorded anyway."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ktrial.cli.live import LiveLines, is_live
from ktrial.cli.streams import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ktrial.domain.frame_lines import FramePattern, Line
    from ktrial.domain.symptom import Symptom
    from ktrial.domain.watching import Seen


def draws(wanted: bool | None, *, as_json: bool, shares_terminal: bool) -> bool:
    """Whether to draw: asked for, or on a terminal that a program which is started does not write to as well."""
    can = is_live(sys.stderr, os.environ) and not as_json
    return can and (wanted if wanted is not None else not shares_terminal)


class Drawn:
    """Draws once a second on stderr; frames come out of the lines of a log where there is one."""

    def __init__(
        self,
        title: str,
        symptoms: Mapping[str, Symptom],
        *,
        program: bool,
        pattern: FramePattern | None = None,
        lines_since: Callable[[int], list[Line]] | None = None,
    ) -> None:
        from ktrial.services.watch_live import LiveWatch

        self._title = title
        self._pattern = pattern
        self._lines_since = lines_since
        self._lines = 0
        self._live = LiveWatch(symptoms, program=program, frames_told=pattern is not None)
        self._view = LiveLines(lambda text: tell(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))
        self._cpu_s = time.process_time()

    def seen(self, seen: Seen) -> None:
        """Draw."""
        self._live.seen(seen)
        self._read_frames()
        self._draw()

    def handed(self, data: bytes) -> None:
        """What the next picture shows."""
        self._live.handed(data)

    def ended(self) -> None:
        """The last picture stays, with what came at the end."""
        self._read_frames()
        self._draw()

    def _draw(self) -> None:
        from ktrial.report.watch_view import watch_view

        moment = self._live.moment(time.process_time() - self._cpu_s)
        if moment is not None:
            self._view.draw(watch_view(moment, title=self._title, width=self._view.columns))

    def _read_frames(self) -> None:
        if self._pattern is None or self._lines_since is None:
            return
        lines = self._lines_since(self._lines)
        self._lines += len(lines)
        told = [(line.at_ns / 1e9, self._pattern.duration_s(line.text)) for line in lines]
        known = [(end_s, took_s) for end_s, took_s in told if took_s is not None]
        self._live.frames([end_s for end_s, _ in known], [took_s for _, took_s in known])
