# SPDX-License-Identifier: Apache-2.0
"""Lines of a log: `log:/path?match=REGEX&take=p99|mean|count|share[&of=REGEX]`.

The time of a line is when it was read.
"""

from __future__ import annotations

import math
import re
import statistics
from array import array
from collections.abc import Sequence
from typing import Protocol

from ktrial.bench.command_benchmark import NUMBER, whole_number
from ktrial.kit.outcome import Outcome
from ktrial.kit.percentile import quantile_of
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.follow import FileHere, FileThere, FollowedFile
from ktrial.live.sources.line_pattern import line_pattern
from ktrial.live.sources.polled import PolledSource, Timeline
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, measured_outcome, named_outcome, split_options

_OPTIONS = ("match", "take", "of")
_TAKES = "mean, p50 to p999, count or share"
_POLL_S = 1.0
#: Nanoseconds for which lines are read at once.
_READ_NS = 500_000_000
#: Maximum number of stored values, with eight bytes each.
_MOST_NUMBERS = 8_000_000


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value with at least this share of the values at or below it."""
    return ordered[math.ceil(share * len(ordered) - 1e-9) - 1]


class LinePart(Protocol):
    """Reads a number in a line, and computes the value of a stretch. `factor` converts to the outcome's unit."""

    path: str
    outcome: Outcome
    factor: float
    #: What is wrong with the latest number that the expression matched.
    wrong: str | None

    def read(self, line: bytes) -> float | None:
        """Return the number in a line; None if the line has none."""

    def summary(self, numbers: Sequence[float], seconds: float) -> float:
        """Return the metric's value from the `numbers` of a stretch. Raise NotRead if there are too few."""


def log_path(metric: LiveMetric, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the path of the log, and the options after it. Raise BadInput if one of them is invalid."""
    path, options = split_options(metric, known)
    if not path.startswith("/") or "\0" in path:
        raise bad_metric(metric, f"{path!r} is not an absolute path", "write the whole path of the log")
    return path, options


class MatchedPart:
    """Reads what a group of the expression matches in a line; implements `LinePart`."""

    def __init__(self, metric: LiveMetric) -> None:
        """Parse the options of the metric. Raise BadInput if they are invalid."""
        self.path, options = log_path(metric, _OPTIONS)
        option = f"--metric {metric.source!r}"
        self.take = options.get("take", "mean")
        self.share = quantile_of(self.take) if re.fullmatch(r"p[0-9]{2,3}", self.take) else None
        if self.share is None and self.take not in {"mean", "count", "share"}:
            raise bad_metric(metric, f"take={self.take} is unknown", f"use {_TAKES}")
        if not options.get("match"):
            raise bad_metric(metric, "match= is missing", r"for example  ?match=took ([0-9.]+) ms&take=p99")
        if ("of" in options) != (self.take == "share"):
            raise bad_metric(metric, "take=share and of=REGEX require each other", "for example  &take=share&of=5..")
        self._match = line_pattern(options["match"], f"{option}: match", (0, 1) if self.take == "count" else (1,))
        self._of = line_pattern(options["of"], f"{option}: of", (0, 1)) if "of" in options else None
        self.wrong: str | None = None
        self.outcome, self.factor = named_outcome(metric)
        if self.take in {"count", "share"}:
            self.outcome, self.factor = measured_outcome(metric, "1/s" if self.take == "count" else "ratio"), 1.0

    def read(self, line: bytes) -> float | None:
        """Return the number in a line, or 1 or 0 for lines that are counted; None if the line has none."""
        found = self._match.search(line.decode(errors="replace"))
        if found is None:
            return None
        if self.take == "count":
            return 1.0
        text = found[1]
        if text is None:
            return None
        if self._of is not None:
            return float(self._of.fullmatch(text) is not None)
        if not NUMBER.fullmatch(text) or whole_number(found) != text or not math.isfinite(float(text)):
            whole = whole_number(found)
            self.wrong = f"only part of {whole!r}" if whole != text else f"{text!r} instead of a finite number"
            return None
        return float(text)

    def summary(self, numbers: Sequence[float], seconds: float) -> float:
        """Return the metric's value from the `numbers` of a stretch. Raise NotRead if there are too few."""
        if self.take == "count":
            return len(numbers) / seconds
        if self.share is not None:
            if len(numbers) * (1 - self.share) < 1 - 1e-9:
                raise NotRead(
                    f"{len(numbers)} lines are too few for {self.take}", hint="use a longer --period, or take=mean"
                )
            return quantile(sorted(numbers), self.share)
        return statistics.fmean(numbers)


def open_log(metric: LiveMetric, world: LiveWorld) -> LogSource:
    return LogSource(metric, world, MatchedPart(metric))


class LogSource(PolledSource):
    """Follows a log on the machine under test."""

    def __init__(self, metric: LiveMetric, world: LiveWorld, part: LinePart) -> None:
        self._path, self._part = part.path, part
        super().__init__(metric, part.outcome, world, _POLL_S)
        self._file: FollowedFile | None = None
        self._chunks: Timeline[array[float]] = Timeline(_MOST_NUMBERS)
        self._skips: Timeline[int] = Timeline()
        self._wrong: Timeline[str] = Timeline()
        self._skipped = 0
        #: Numbers since the last sample, and the time of that sample.
        self._waiting = array("d")
        self._since_ms = 0

    def _begin(self) -> None:
        self._file = FileThere(self._path, self._world) if self._world.is_remote else FileHere(self._path)
        self._since_ms = self._world.clock.unix_ms()
        self._chunks.add(self._since_ms, array("d"))

    def _poll(self) -> Sequence[Sample]:
        if self._file is None:
            raise NotRead(f"{self._path} was never opened", hint="check the path and its permissions")
        lines = self._file.take()
        at_ms = self._world.clock.unix_ms()
        numbers, all_read = self._numbers(lines)
        if self._file.skipped > self._skipped or not all_read:
            self._skipped = self._file.skipped
            self._skips.add(at_ms, self._skipped)
        if self._part.wrong is not None:
            self._wrong.add(at_ms, self._part.wrong)
            self._part.wrong = None
        self._chunks.add(at_ms, numbers, len(numbers) + 1)
        self._waiting.extend(numbers)
        if at_ms <= self._since_ms or not self._waiting:
            self._since_ms = at_ms  # a count covers the time since the last look
            return ()
        try:
            value = self._part.summary(self._waiting, (at_ms - self._since_ms) / 1000)
        except NotRead:
            return ()  # too few lines for a sample; the next look adds more
        self._waiting, self._since_ms = array("d"), at_ms
        return (Sample(at_ms, value * self._part.factor),)

    def _numbers(self, lines: Sequence[bytes]) -> tuple[array[float], bool]:
        """Return the numbers in the lines, and whether all lines could be read in time."""
        numbers = array("d")
        clock = self._world.clock
        end_ns = clock.monotonic_ns() + _READ_NS
        for line in lines:
            number = self._part.read(line)
            if number is not None:
                numbers.append(number)
            if clock.monotonic_ns() > end_ns:
                return numbers, False
        return numbers, True

    def _over(self, stretch: Stretch) -> StretchReading:
        _, chunks = self.covered(stretch, self._chunks, 1)
        if self._skips.inside(stretch)[0]:
            raise NotRead(
                "lines were skipped, because the log was replaced or grew faster than ktrial reads",
                hint="write fewer lines, or rotate the log less often",
            )
        numbers = array("d", (number for chunk in chunks for number in chunk))
        if not numbers:
            wrong = self._wrong.inside(stretch)[1]
            if wrong:
                raise NotRead(
                    f"the expression matches {wrong[-1]} in {self._path}",
                    hint="match the whole number, with its decimal point, and nothing else",
                )
            raise NotRead(
                f"no line of {self._path} matches the expression", hint="try the expression on the log with `grep -P`"
            )
        value = self._part.summary(numbers, stretch.seconds) * self._part.factor
        return StretchReading(value=value, samples=len(numbers))

    def end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
