# SPDX-License-Identifier: Apache-2.0
"""Frames of a running game, from a log with one frame per line: `frames:/path?match=REGEX[&take=OUTCOME]`.

The expression has a group whose name is a unit, as in `ktrial watch`. The log of MangoHud cannot be followed, because
MangoHud writes it when logging ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Outcome
from ktrial.live.model import LiveMetric
from ktrial.live.sources.line_pattern import line_pattern
from ktrial.live.sources.log import LogSource, log_path
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, measured_outcome
from ktrial.recordings.frames.lines import FramePattern
from ktrial.recordings.frames.statistics import FRAME_OUTCOMES, frame_statistics

_OPTIONS = ("match", "take")
_USUAL = "frame-time-p99"
_OUTCOMES = {one.outcome.name: one.outcome for one in FRAME_OUTCOMES}


class FramePart:
    """Reads the frame time in a line, and computes a statistic of a stretch's frames."""

    def __init__(self, metric: LiveMetric) -> None:
        """Parse the options of the metric. Raise BadInput if they are invalid."""
        self.path, options = log_path(metric, _OPTIONS)
        self._take = options.get("take", _USUAL)
        if self._take not in _OUTCOMES:
            raise bad_metric(metric, f"take={self._take} is unknown", f"use one of: {', '.join(_OUTCOMES)}")
        if self._take == "stutters":
            raise bad_metric(
                metric, "the number of stutters grows with the length of the period", "write take=stutter-rate"
            )
        if not options.get("match"):
            raise bad_metric(metric, "match= is missing", r"for example  ?match=frame (?P<ms>[\d.]+) ms")
        option = f"--metric {metric.source!r}: match"
        line_pattern(options["match"], option, (1, 2))
        self._pattern = FramePattern(options["match"], option)
        statistic = _OUTCOMES[self._take]
        named = measured_outcome(metric, statistic.unit)
        self.outcome: Outcome = msgspec.structs.replace(
            statistic, name=named.name, direction=metric.direction, headline=True
        )
        self.factor = 1.0
        self.wrong: str | None = None

    def read(self, line: bytes) -> float | None:
        """Return the frame's time in seconds; None if the line has none."""
        duration_s = self._pattern.duration_s(line.decode(errors="replace"))
        return duration_s or None

    def summary(self, numbers: Sequence[float], seconds: float) -> float:
        """Return the statistic of these frames. Raise NotRead if there are too few."""
        try:
            found = frame_statistics(numbers)
        except BadRun as error:
            raise NotRead(error.message, hint="use a longer --period") from None
        value = next((one.value for one in found.measurements if one.outcome == self._take), None)
        if value is None:
            raise NotRead(
                next(f"{self._take} {one.why}" for one in found.left_out if one.outcome == self._take),
                hint="use a longer --period",
            )
        return value


def open_frames(metric: LiveMetric, world: LiveWorld) -> LogSource:
    return LogSource(metric, world, FramePart(metric))
