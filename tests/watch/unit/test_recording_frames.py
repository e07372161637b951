# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, UnreadableOutput
from ktrial.recordings.formats import read_recording_file
from ktrial.recordings.ktrial_frames import HEADER, rows
from ktrial.recordings.merge import together, with_start
from ktrial.recordings.model import Frames, Recording, Source

ZERO_S = 1_760_000_000.0


def frames(kind: str = "frame", source: str = "log") -> Frames:
    return Frames(
        kind="wake-up" if kind == "wake-up" else "frame",
        source=source,
        ends_s=array("d", [0.5, 0.52, 0.57]),
        durations_s=array("d", [0.02, 0.02, 0.05]),
    )


def written(told: Frames, unix_at_zero_s: float) -> str:
    zero_ns = round(unix_at_zero_s * 1e9)
    ends_ns = [round(end_s * 1e9) for end_s in told.ends_s]
    pairs = zip(ends_ns, told.durations_s, strict=True)
    return f"{HEADER}\n{rows(pairs, zero_ns, told.clock_error_s)}"


def watched() -> Recording:
    return Recording(
        name="recording.ktr",
        begin_s=0.0,
        end_s=1.0,
        unix_at_zero_s=ZERO_S,
        sources=(Source(name="wakeup", state="active"),),
        frames=frames("wake-up", "wakeup"),
    )


def test_frames_lie_beside_what_was_watched_meanwhile() -> None:
    told = read_recording_file(written(frames(), ZERO_S).encode(), "frames.csv")
    assert (told.ended, told.frames and len(told.frames.ends_s)) == ("whole", 3)
    both = together("flight", [watched(), told])
    assert both.frames is not None
    assert (both.frames.kind, both.frames.source) == ("frame", "frames")
    assert list(both.frames.ends_s) == pytest.approx([0.5, 0.52, 0.57], abs=1e-6)
    assert list(both.frames.durations_s) == [0.02, 0.02, 0.05]
    assert (both.begin_s, both.end_s) == (0.0, 1.0)


def test_a_given_start_dates_the_log_without_one_and_not_the_wake_ups_beside_it() -> None:
    undated = msgspec.structs.replace(watched(), name="mangohud.csv", unix_at_zero_s=None)
    assert with_start(undated, ZERO_S + 5).unix_at_zero_s == ZERO_S + 5
    assert with_start(watched(), ZERO_S + 5) == watched()
    without = msgspec.structs.replace(watched(), unix_at_zero_s=None, frames=None)
    assert with_start(without, ZERO_S) == without


def test_wake_ups_stand_for_frames_where_there_are_none() -> None:
    assert together("flight", [watched()]).frames == watched().frames


def test_two_logs_of_frames_are_refused() -> None:
    told = read_recording_file(written(frames(), ZERO_S).encode(), "frames.csv")
    with pytest.raises(BadInput, match="both contain frames"):
        together("flight", [told, read_recording_file(written(frames(), ZERO_S).encode(), "more.csv")])


def test_how_far_their_clock_may_be_off_is_kept() -> None:
    log = msgspec.structs.replace(frames(), clock_error_s=0.0125)
    told = read_recording_file(written(log, ZERO_S).encode(), "frames.csv")
    assert told.frames is not None
    assert told.frames.clock_error_s == 0.0125


def test_a_file_that_knows_of_no_error_is_read() -> None:
    told = read_recording_file(b"end_unix_ns,duration_ns\n1760000000500000000,20000000\n", "frames.csv")
    assert told.frames is not None
    assert (told.frames.clock_error_s, list(told.frames.durations_s)) == (0.0, [0.02])


def test_a_row_that_was_cut_off_is_left() -> None:
    told = read_recording_file(written(frames(), ZERO_S).encode()[:-4], "frames.csv")
    assert (told.ended, told.frames and len(told.frames.ends_s)) == ("cut-off", 2)


@pytest.mark.parametrize("rows", ["1,2\n", "1,2,3,4\n", "1.5,2,0\n", "x,2,0\n", "-1,2,0\n", f"{10**19},1,0\n", ""])
def test_what_is_no_frame_is_refused(rows: str) -> None:
    with pytest.raises(UnreadableOutput):
        read_recording_file(f"{HEADER}\n{rows}".encode(), "frames.csv")


def test_frames_that_were_told_late_are_put_in_order() -> None:
    told = read_recording_file(f"{HEADER}\n900,100,0\n300,100,0\n".encode(), "frames.csv").frames
    assert told is not None
    assert list(told.ends_s) == pytest.approx([1e-7, 7e-7])


@given(st.text(alphabet="0123456789,-.\nx\0é", max_size=60))
def test_any_text_is_read_or_refused(rows: str) -> None:
    with contextlib.suppress(UnreadableOutput):
        assert read_recording_file(f"{HEADER}\n{rows}".encode(), "frames.csv").frames is not None
