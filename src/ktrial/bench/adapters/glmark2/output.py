# SPDX-License-Identifier: Apache-2.0
"""Output of glmark2: the renderer, each scene's frame rate, and the score.

A scene's line is `[NAME] OPTIONS: FPS: 497 FrameTime: 2.015 ms`; OPTIONS may contain `:` and `=`. ktrial reads
the frame time, because glmark2 rounds FPS up to a whole number. A scene that glmark2 cannot set up has no FPS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, numbered, quantity, unreadable

_SCENE = re.compile(r"\[([a-z0-9-]+)\] (.*)")
_RATE = re.compile(r" FPS: (\S+) FrameTime: (\S+) ms")
_SCORE = re.compile(r"glmark2 Score: (\S+)")
_TITLE = re.compile(r"glmark2 (\S+)")
_INFORMATION = re.compile(r"(GL_VENDOR|GL_RENDERER|GL_VERSION|Surface Config|Surface Size):\s*(.*)")
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software rasterizer", "lavapipe")
#: The score is the mean of all rates; it may be off by the rounding of each.
_ROUNDING = 2.0


class Glmark2Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One scene; `options` are as glmark2 prints them."""

    name: str
    options: str
    frame_time: Quantity

    @property
    def fps(self) -> float:
        return 1 / self.frame_time.value


class Glmark2Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `information` holds GL_VENDOR, GL_RENDERER, GL_VERSION and two lines about the surface."""

    version: str | None
    information: Mapping[str, str]
    scenes: tuple[Glmark2Scene, ...]
    score: Quantity

    @property
    def renderer(self) -> str:
        return self.information["GL_RENDERER"]

    @property
    def by_software(self) -> bool:
        return any(word in self.renderer.lower() for word in _SOFTWARE)


def read_glmark2(data: bytes, source: str = "stdout") -> Glmark2Run:
    """Parse glmark2's stdout. Raise UnreadableOutput for a scene without a frame rate."""
    version: str | None = None
    score: Quantity | None = None
    information: dict[str, str] = {}
    scenes: list[Glmark2Scene] = []
    for line, text in numbered(data, source):
        stripped = text.strip()
        if found := _INFORMATION.fullmatch(stripped):
            information[found[1]] = found[2]
        elif found := _SCORE.fullmatch(stripped):
            if score is not None:
                raise unreadable(source, line, text, "the only score of a run")
            score = quantity(found[1], "score", source, line, "a score")
        elif found := _TITLE.fullmatch(stripped):
            version = found[1]
        elif found := _SCENE.fullmatch(stripped):
            scenes.append(_scene(found[1], found[2], source, line))
    if score is None or not scenes or "GL_RENDERER" not in information:
        raise unreadable(source, None, "", "output of glmark2: it has no score, no scene or no GL_RENDERER")
    _check_score(score, scenes, source)
    return Glmark2Run(version=version, information=information, scenes=tuple(scenes), score=score)


def _scene(name: str, rest: str, source: str, line: int) -> Glmark2Scene:
    options, colon, result = rest.rpartition(": FPS:")
    if not colon:
        raise unreadable(source, line, f"[{name}] {rest}", "a drawn scene: it has no frame rate")
    found = _RATE.fullmatch(f" FPS:{result}")
    if found is None:
        raise unreadable(source, line, rest, "a scene's result such as 'FPS: 497 FrameTime: 2.015 ms'")
    fps = quantity(found[1], "1/s", source, line, "frames per second")
    frame_time = quantity(found[2], "ms", source, line, "a frame time")
    if not frame_time.value:
        raise unreadable(source, line, rest, "a frame time above 0")
    if abs(fps.value - 1 / frame_time.value) > 1 + 1e-6 * fps.value / frame_time.value:
        raise unreadable(source, line, rest, "a frame rate that fits its frame time")
    return Glmark2Scene(name=name, options=options, frame_time=frame_time)


def _check_score(score: Quantity, scenes: list[Glmark2Scene], source: str) -> None:
    mean = sum(scene.fps for scene in scenes) / len(scenes)
    if abs(score.value - mean) > _ROUNDING + 0.01 * mean:
        raise unreadable(
            source,
            None,
            score.original,
            f"the mean of the {len(scenes)} scenes in the output, {mean:.1f}: some scenes are missing",
        )
