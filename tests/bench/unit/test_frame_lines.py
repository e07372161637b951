# SPDX-License-Identifier: Apache-2.0
"""Frames in the lines of a log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.recordings.frames.lines import FrameLine, FramePattern, frames_of


@pytest.mark.parametrize(
    "pattern, line, duration_s",
    [
        (r"frame (?P<ms>[\d.]+) ms", "frame 16.7 ms", 0.0167),
        (r"frame (?P<ms>[\d,]+) ms", "frame 16,7 ms", 0.0167),
        (r"fps=(?P<fps>\d+)", "x fps=50", 0.02),
        (r"(?P<us>\d+)us", "took 900us", 0.0009),
        (r"fps=(?P<fps>\d+)", "x fps=0", None),
        (r"(?P<s>\S+) s", "nan s", None),
        (r"(?P<ms>\d+) ms", "nothing", None),
    ],
)
def test_the_unit_is_that_of_the_group(pattern: str, line: str, duration_s: float | None) -> None:
    found = FramePattern(pattern).duration_s(line)
    assert found == (None if duration_s is None else pytest.approx(duration_s))


@pytest.mark.parametrize("pattern", ["(", "no group", r"(?P<ms>\d)(?P<s>\d)", r"(?P<minutes>\d)"])
def test_a_pattern_that_tells_no_time_is_refused(pattern: str) -> None:
    with pytest.raises(BadInput, match="--pattern"):
        FramePattern(pattern)


def test_frames_end_when_their_lines_were_read() -> None:
    lines = [FrameLine(2_000_000_000, "16 ms"), FrameLine(2_100_000_000, "rubbish"), FrameLine(2_500_000_000, "40 ms")]
    frames = frames_of(lines, FramePattern(r"(?P<ms>\d+) ms"), 1_000_000_000, 0.02, "game.log")
    assert list(frames.ends_s) == [1.0, 1.5]
    assert list(frames.durations_s) == [0.016, 0.04]
    assert frames.clock_error_s == 0.02


@pytest.mark.parametrize(
    "lines, told",
    [
        ([], "game.log: no line was written during the recording"),
        ([FrameLine(1, "Bild 16 ms")], "matches none of 1 lines .*; the first is 'Bild 16 ms'"),
    ],
)
def test_a_pattern_that_fits_no_line_is_an_error(lines: list[FrameLine], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        frames_of(lines, FramePattern(r"frame (?P<ms>\d+)"), 0, 0.02, "game.log")


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=60))
def test_any_line_tells_a_time_or_none(line: bytes) -> None:
    found = FramePattern(r"(?P<ms>\S+)").duration_s(line.decode(errors="replace"))
    assert found is None or found >= 0


def test_frames_end_when_their_lines_say_so() -> None:
    lines = [FrameLine(2_000_000_000, "1.9 16 ms"), FrameLine(2_100_000_000, "2.05 40 ms")]
    frames = frames_of(lines, FramePattern(r"(?P<at>[\d.]+) (?P<ms>\d+) ms"), 1_000_000_000, 0.02, "game.log")
    assert list(frames.ends_s) == pytest.approx([0.9, 1.05])
    assert frames.clock_error_s == 0


@pytest.mark.parametrize("at", ["2.5", "nan", "inf", "x", "1e999"])
def test_an_end_on_another_clock_is_an_error(at: str) -> None:
    pattern = FramePattern(r"(?P<at>\S+) (?P<ms>\d+) ms")
    with pytest.raises(BadInput, match="not a time shortly before"):
        frames_of([FrameLine(2_000_000_000, f"{at} 16 ms")], pattern, 0, 0.02, "game.log")
