# SPDX-License-Identifier: Apache-2.0
"""Frames of a running game, from the log that MangoHud writes: `frames:/folder|/file.csv[?take=OUTCOME]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Outcome
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.follow import FileHere, FollowedFile
from ktrial.live.sources.polled import PolledSource, Timeline
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, measured_outcome, split_options
from ktrial.recordings.frames.mangohud import is_mangohud, read_mangohud
from ktrial.recordings.frames.statistics import FRAME_OUTCOMES, frame_statistics

_POLL_S = 1.0
_MOST_ROWS = 4_000_000
_HEAD_BYTES = 1 << 16
_USUAL = "frame-time-p99"
_OUTCOMES = {one.outcome.name: one.outcome for one in FRAME_OUTCOMES}


def frames_parts(metric: LiveMetric) -> tuple[str, Outcome]:
    """Return the path and which statistic of the frames is meant. Raise BadInput."""
    path, options = split_options(metric, ("take",))
    take = options.get("take", _USUAL)
    if not path.startswith("/") or "\0" in path:
        raise bad_metric(metric, f"{path!r} is not an absolute path", "write the folder into which MangoHud logs")
    if take not in _OUTCOMES:
        raise bad_metric(metric, f"take is {take!r}", f"give one of {', '.join(_OUTCOMES)}")
    found = _OUTCOMES[take]
    if take == "stutters":
        raise bad_metric(metric, "a number of stutters grows with the time", "write take=stutter-rate")
    named = measured_outcome(metric, found.unit)
    return path, msgspec.structs.replace(found, name=named.name, direction=metric.direction, headline=True)


class FramesSource(PolledSource):
    """Follows a log of MangoHud with one row a frame. A frame's time is when its row was read."""

    def __init__(self, metric: LiveMetric, world: LiveWorld) -> None:
        self._path, outcome = frames_parts(metric)
        self._take = dict(split_options(metric, ("take",))[1]).get("take", _USUAL)
        super().__init__(metric, outcome, world, _POLL_S)
        self._file: FollowedFile | None = None
        self._head = b""
        self._rows: Timeline[list[bytes]] = Timeline(_MOST_ROWS)

    def _begin(self) -> None:
        if self._world.is_remote:
            raise BadInput(
                f"--metric {self.metric.source!r}: frames are read on the machine that ktrial runs on",
                hint="run ktrial on the machine with the game, or measure its log: log:/path?match=…",
            )
        path = _newest(Path(self._path))
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if not is_mangohud(head):
            raise BadInput(f"{path} is not a log of MangoHud", hint="give the folder into which MangoHud logs")
        self._head = _head_of(head)
        self._file = FileHere(str(path))
        self._rows.add(self._world.clock.unix_ms(), [])

    def _poll(self) -> Sequence[Sample]:
        if self._file is None:
            raise NotRead(f"{self._path} was never opened")
        rows = self._file.take()
        at_ms = self._world.clock.unix_ms()
        self._rows.add(at_ms, rows, len(rows) + 1)
        try:
            return (Sample(at_ms, self._statistic(rows)[0]),)
        except NotRead:
            return ()  # too few frames since the last look; a stretch has more

    def _over(self, stretch: Stretch) -> StretchReading:
        _, chunks = self.covered(stretch, self._rows, 1)
        rows = [row for chunk in chunks for row in chunk]
        if not rows:
            raise NotRead("the game logged no frame")
        value, frames = self._statistic(rows)
        return StretchReading(value=value, samples=frames)

    def _statistic(self, rows: Sequence[bytes]) -> tuple[float, int]:
        """Return the statistic of these rows, and the number of frames. Raise NotRead."""
        try:
            log = read_mangohud(self._head + b"".join(row + b"\n" for row in rows), self._path)
            found = frame_statistics(log.frame_times_s)
        except BadRun as error:
            raise NotRead(error.message) from None
        value = next((one.value for one in found.measurements if one.outcome == self._take), None)
        if value is None:
            why = next(one.why for one in found.left_out if one.outcome == self._take)
            raise NotRead(f"{self._take} {why}")
        return value, found.frames

    def end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _newest(path: Path) -> Path:
    """Return the file itself, or the newest log in a folder. Raise BadInput."""
    try:
        if not path.is_dir():
            path.stat()
            return path
        logs = [one for one in path.glob("*.csv") if not one.name.endswith("_summary.csv")]
        found = max(logs, key=lambda one: one.stat().st_mtime, default=None)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint="check the path, and who may read it") from None
    if found is None:
        raise BadInput(f"{path} holds no log of MangoHud", hint="start the game, and its logging, before the trial")
    return found


def _head_of(data: bytes) -> bytes:
    """Return the lines up to the names of the columns. Raise BadInput if there are none."""
    found = b""
    for line in data.splitlines(keepends=True):
        found += line
        if b"fps" in line.split(b",")[:2]:
            return found
    raise BadInput("the log of MangoHud has no line that names its columns", hint="wait until the game logs frames")
