# SPDX-License-Identifier: Apache-2.0
"""The live view of `ktrial watch`: drawn in place on a terminal, of what is recorded anyway."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ktrial.cli.shared.watch import untraced
from ktrial.kit.console import LiveLines, is_live
from ktrial.kit.streams import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.recordings.watching import Seen
    from ktrial.watch.diagnosis.symptoms import Symptom


def draws(wanted: bool | None, *, as_json: bool, shares_terminal: bool) -> bool:
    """Whether to draw: asked for, or on a terminal that a program which is started does not write to as well."""
    can = is_live(sys.stderr, os.environ) and not as_json
    return can and (wanted if wanted is not None else not shares_terminal)


class Drawn:
    """Draws once a second on stderr; `frames_told` says that a log tells frames."""

    def __init__(
        self,
        title: str,
        symptoms: Mapping[str, Symptom],
        *,
        program: bool,
        frames_told: bool = False,
    ) -> None:
        from ktrial.watch.record.live import LiveWatch

        self._title = title
        self._told = False
        self._live = LiveWatch(symptoms, program=program, frames_told=frames_told)
        self._view = LiveLines(lambda text: draw(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))
        self._cpu_s = time.process_time()

    def seen(self, seen: Seen) -> None:
        """Draw."""
        self._live.seen(seen)
        self._draw()

    def handed(self, data: bytes) -> None:
        """What the next picture shows."""
        self._live.handed(data)
        if not self._told and self._live.why_untraced is not None:
            self._told = True
            self._view.say(untraced(self._live.why_untraced))

    def ended(self) -> None:
        """The last picture stays, with what came at the end."""
        self._draw()

    def frames(self, frames: Sequence[tuple[int, float]]) -> None:
        """Frames of a log."""
        self._live.frames([end_ns / 1e9 for end_ns, _ in frames], [took_s for _, took_s in frames])

    def _draw(self) -> None:
        from ktrial.watch.record.live_view import watch_view

        moment = self._live.moment(time.process_time() - self._cpu_s)
        if moment is not None:
            self._view.draw(watch_view(moment, title=self._title, width=self._view.columns))
