# SPDX-License-Identifier: Apache-2.0
"""A command that prints one number: `command:WORDS`. It runs as the user, without a shell, once every few seconds."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Sequence

from ktrial.bench.benchmark import RawOutput, why_failed
from ktrial.bench.command_benchmark import Metric, PrintedNumber
from ktrial.kit.errors import BadRun, in_lower_case, quoting_hint
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.polled import PolledSource, Timeline
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, named_outcome

_POLL_S, _LIMIT_S = 5.0, 5.0
_MOST_BYTES = 4096
_NUMBER = r"\A\s*(\S+)\s*\Z"
_OF_A_SHELL = frozenset(("|", "||", "&", "&&", ">", ">>", "<", "2>", "2>&1"))


def command_words(metric: LiveMetric) -> tuple[str, ...]:
    """Return the words of the command. Raise BadInput if they are invalid or need a shell."""
    text = metric.source.partition(":")[2]
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise bad_metric(metric, in_lower_case(str(error)), quoting_hint(error)) from None
    if not words or not words[0]:
        raise bad_metric(metric, "the command is empty", "for example  command:/usr/local/bin/queue-length")
    if "\0" in text:
        raise bad_metric(metric, "a word contains a NUL byte", "remove the NUL byte")
    shell = next((word for word in words if word in _OF_A_SHELL or (word != ";" and word.endswith(";"))), None)
    if shell is not None:
        raise bad_metric(
            metric, f"{shell!r} needs a shell, and ktrial does not use one", "for example  command:sh -c '…'"
        )
    return words


class CommandSource(PolledSource):
    """Runs the command at each reading; the value of a stretch is the mean of the numbers."""

    def __init__(self, metric: LiveMetric, world: LiveWorld) -> None:
        self._words = command_words(metric)
        outcome, self._factor = named_outcome(metric)
        super().__init__(metric, outcome, world, _POLL_S)
        self._number = Metric(metric.name, metric.direction, _NUMBER)
        self._readings: Timeline[float] = Timeline()

    def _begin(self) -> None:
        self._read()

    def _poll(self) -> Sequence[Sample]:
        return (self._read(),)

    def _read(self) -> Sample:
        begin_ms = self._world.clock.unix_ms()
        raw = self._world.run(self._words, _LIMIT_S)
        at_ms = (begin_ms + self._world.clock.unix_ms()) // 2
        failure = why_failed(raw)
        if failure is not None:
            raise NotRead(f"{self._words[0]} {failure}", hint="run the command by hand to see why it fails")
        try:
            found = self._number.read(PrintedNumber(RawOutput(stdout=raw.stdout[:_MOST_BYTES])))
        except BadRun:
            shown = raw.stdout[:60].decode(errors="replace").strip()
            raise NotRead(
                f"{self._words[0]} printed {shown!r}, expected one number",
                hint="make the command print one number and nothing else",
            ) from None
        self._readings.add(at_ms, found.value)
        return Sample(at_ms, found.value)

    def _over(self, stretch: Stretch) -> StretchReading:
        times, values = self.covered(stretch, self._readings, 1)
        return StretchReading(value=statistics.fmean(values), samples=len(times))
