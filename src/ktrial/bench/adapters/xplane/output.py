# SPDX-License-Identifier: Apache-2.0
"""Log.txt of X-Plane after `--fps_test=N`: the result of each stage of its own frame rate test.

A stage is a line `FRAMERATE TEST: time=30.0, frames=1500, fps=50.00`, followed by `GPU LOAD: time=…, wait=…, load=…%`
on the same or the next line. A replay of a flight recorder file (.fdr) has one stage. A movie (.smo) and the built-in
test have three of 30 seconds: with panel, without it, and paused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.bench.outcomes import rate
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, numbered, quantity, unreadable, whole
from ktrial.kit.outcome import Outcome

_TEST = "FRAMERATE TEST:"
_GPU = "GPU LOAD:"
_VERSION = re.compile(r"Log\.txt for X-Plane (\S+)")
_FIELD = re.compile(r"\b([a-z]+)=([^,\s%]*(?:,\d[^,\s%]*)?)")
#: fps is printed with about two decimals; frames / time must agree with it to within this share.
_AGREE = 0.02


#: Number of stages -> the outcome of each, and what it drew. A replayed flight has one.
STAGES: Mapping[int, tuple[tuple[str, str], ...]] = {
    1: (("fps", "the whole replay"),),
    3: (("fps-panel", "30 s with panel"), ("fps-no-panel", "30 s without panel"), ("fps-paused", "30 s paused")),
}
#: Note on every result of the test.
NO_FRAMES = "X-Plane does not log single frames, so there are no quantiles, lows or stutters"


def stage_outcome(name: str) -> Outcome:
    """Return the outcome of a stage, which is a headline if a test begins with this stage."""
    sentence = "X-Plane draws [more|fewer] frames per second."
    blind = "A mean, which hides stutter. The simulator's preferences are not used."
    return rate(name, "1/s", sentence, blind, (0.1, 1e4), headline=name in {one[0][0] for one in STAGES.values()})


class XPlaneStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the test; `gpu_load_percent` is None if it is not in the log."""

    time: Quantity
    frames: int
    fps: Quantity
    gpu_load_percent: float | None = None


class XPlaneLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log with at least one stage."""

    version: str | None
    stages: tuple[XPlaneStage, ...]


def is_xplane(data: bytes) -> bool:
    return b"Log.txt for X-Plane" in data[:4096] or _TEST.encode() in data


def read_xplane(data: bytes, source: str = "Log.txt") -> XPlaneLog:
    """Parse the version and the stages. Raise BadRun if the log has no stage."""
    version: str | None = None
    stages: list[XPlaneStage] = []
    for line, text in numbered(data, source):
        if version is None and (found := _VERSION.search(text)):
            version = found[1]
        begin = text.find(_TEST)
        if begin >= 0:
            stages.append(_stage(text[begin:].partition(_GPU)[0], source, line))
        load = text.find(_GPU)
        if load >= 0 and stages and stages[-1].gpu_load_percent is None:
            stages[-1] = msgspec.structs.replace(stages[-1], gpu_load_percent=_load(text[load:], source, line))
    if not stages:
        raise BadRun(
            f"{source} has no line FRAMERATE TEST: X-Plane did not finish its frame rate test",
            hint="run X-Plane with --fps_test=3 until it exits",
        )
    return XPlaneLog(version=version, stages=tuple(stages))


def _stage(text: str, source: str, line: int) -> XPlaneStage:
    fields = _fields(text, ("time", "frames", "fps"), source, line)
    stage = XPlaneStage(
        time=quantity(fields["time"], "s", source, line, "seconds"),
        frames=whole(fields["frames"], source, line, "a number of frames"),
        fps=quantity(fields["fps"], "1/s", source, line, "frames per second"),
    )
    if not stage.frames or not stage.time.value:
        raise unreadable(source, line, text, "a stage with frames and a time")
    rate = stage.frames / stage.time.value
    if abs(rate - stage.fps.value) > _AGREE * rate:
        raise unreadable(source, line, text, f"a stage whose fps is frames divided by time ({rate:.4g})")
    return stage


def _load(text: str, source: str, line: int) -> float:
    return quantity(_fields(text, ("load",), source, line)["load"], "score", source, line, "a load in percent").value


def _fields(text: str, wanted: tuple[str, ...], source: str, line: int) -> dict[str, str]:
    fields = dict(_FIELD.findall(text))
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise unreadable(source, line, text, f"a test result: it lacks {', '.join(missing)}")
    return fields
