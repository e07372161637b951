# SPDX-License-Identifier: Apache-2.0
"""Frames as Android prints them: gfxinfo's tables, and the moments at which a layer was shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktrial.bench.adapters
from ktrial.kit.errors import BadRun
from ktrial.recordings.formats import read_recording_file
from ktrial.recordings.frames.android import DrawnFrames, is_framestats, is_latency, read_framestats, read_latency

CASES = Path(ktrial.bench.adapters.__file__).parent / "gfxinfo/cases"
DUMP = (CASES / "14-made/stdout").read_bytes().removesuffix(b"=ktrial end\n")
PENDING = 2**63 - 1
LATENCY = b"16666666\n0\t0\t0\n" + b"".join(
    b"%d\t%d\t%d\n" % (at, at + 5_000_000, at + 2_000_000) for at in range(10**12, 10**12 + 5 * 16_666_666, 16_666_666)
)
SHORT = b"---PROFILEDATA---\nFlags,IntendedVsync,FrameCompleted,\n0,1000,3000,\n---PROFILEDATA---\n"


def test_a_frame_in_two_dumps_counts_once() -> None:
    frames = read_framestats(DUMP)
    assert (len(frames.times_s), frames.flagged, frames.rendered) == (149, 1, 150)
    assert frames.interval_s == 0.016666667
    assert read_framestats(DUMP + DUMP).times_s == frames.times_s
    assert list(frames.ends_s) == sorted(frames.ends_s)


def test_frames_of_a_layer_are_what_was_shown() -> None:
    shown = read_latency(LATENCY + b"%d\t%d\t%d\n" % (10**12, PENDING, 10**12))
    assert (len(shown.shown_s), shown.refresh_s) == (5, 0.016666666)


@pytest.mark.parametrize("data, count", [(DUMP, 149), (LATENCY, 4)], ids=["gfxinfo", "surfaceflinger"])
def test_a_saved_dump_is_a_recording(data: bytes, count: int) -> None:
    recording = read_recording_file(data, "saved")
    assert recording.frames is not None
    assert len(recording.frames.ends_s) == count
    assert recording.begin_s < recording.frames.ends_s[0]


@pytest.mark.parametrize(
    "text, said",
    [
        (b"No process found for: x\n", "its tables have no frame"),
        (SHORT.replace(b"0,1000", b"1,1000"), "Android marks every frame as unusual"),
        (SHORT.replace(b"3000", b"900"), "a frame that ends within 600 s after it begins"),
        (SHORT.replace(b"3000", b"30,5"), "a frame with 3 values"),
        (SHORT.replace(b"3000", b"x"), "nanoseconds in FrameCompleted"),
        (SHORT.replace(b"FrameCompleted", b"Frame"), "a header with the columns"),
        (
            SHORT.partition(b"\n---")[0] + b"\n",
            "complete output of dumpsys: the line ---PROFILEDATA--- that ends a table is missing",
        ),
        (SHORT[:-1], "the output is cut off"),
    ],
)
def test_a_table_that_is_broken_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(BadRun, match=said):
        read_framestats(text)


@pytest.mark.parametrize(
    "text, said",
    [
        (b"16666666\n", "it has shown fewer than two"),
        (b"0\n1\t2\t3\n", "not a time between two refreshes"),
        (b"16666666\n1\t2\n", "a frame with 3 values"),
        (b"16666666\n1\t2\t-3\n", "nanoseconds"),
    ],
)
def test_moments_that_are_broken_are_refused(text: bytes, said: str) -> None:
    with pytest.raises(BadRun, match=said):
        read_latency(text)


@given(st.data())
def test_a_change_is_read_or_refused(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([SHORT, LATENCY, DUMP[:4000]]))
    at = data.draw(st.integers(0, len(whole)))
    text = whole[:at] + data.draw(st.binary(max_size=8)) + whole[data.draw(st.integers(at, len(whole))) :]
    is_framestats(text)
    is_latency(text)
    for read in (read_framestats, read_latency):
        try:
            found = read(text)
        except BadRun:
            continue
        times_s = found.times_s if isinstance(found, DrawnFrames) else found.shown_s
        assert all(time_s > 0 for time_s in times_s)
