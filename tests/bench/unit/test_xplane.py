# SPDX-License-Identifier: Apache-2.0
"""Log.txt of X-Plane. No X-Plane could be run here: the lines are as its public parsers take them apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.bench.adapters.xplane.output import is_xplane, read_xplane
from ktrial.kit.errors import BadRun, UnreadableOutput

HEAD = "Log.txt for X-Plane 12.1.4-r3-9c9ae1d4 (build 121420)\ncompiled on Feb 11 2025\n"
ONE_LINE = "FRAMERATE TEST: time=60.0, frames=3012, fps=50.20 GPU LOAD: time=60.0, wait=1.5, load=97.5%\n"
TWO_LINES = "FRAMERATE TEST: time=30.2, frames=906, fps=30.00\r\nGPU LOAD: time=30.2, wait=0.1, load=99.6%\r\n"


def test_one_stage() -> None:
    log = read_xplane((HEAD + "0:00:01 I/SCN: loaded\n" + ONE_LINE + "goodbye\n").encode())
    assert log.version == "12.1.4-r3-9c9ae1d4"
    (stage,) = log.stages
    assert (stage.time.value, stage.frames, stage.fps.value, stage.gpu_load_percent) == (60.0, 3012, 50.2, 97.5)


def test_three_stages_and_load_on_the_next_line() -> None:
    log = read_xplane((HEAD + TWO_LINES * 3).encode())
    assert [stage.frames for stage in log.stages] == [906] * 3
    assert [stage.gpu_load_percent for stage in log.stages] == [99.6] * 3


def test_without_load() -> None:
    (stage,) = read_xplane(b"FRAMERATE TEST: time=10, frames=100, fps=10.0\n").stages
    assert stage.gpu_load_percent is None


@pytest.mark.parametrize(
    "text, error",
    [
        (HEAD, "no line FRAMERATE TEST"),
        ("", "empty"),
        (ONE_LINE.replace("fps=50.20", "fps=60.20"), r"a stage whose fps is frames divided by time \(50.2\)"),
        (ONE_LINE.replace("fps=50.20", "fps=nan"), "frames per second"),
        (ONE_LINE.replace("frames=3012", "frames=-3"), "a number of frames"),
        (ONE_LINE.replace("frames=3012, ", ""), "it lacks frames"),
        (ONE_LINE.replace("time=60.0, f", "time=0.0, f"), "a stage with frames and a time"),
        (ONE_LINE.replace("load=97.5%", ""), "it lacks load"),
        (ONE_LINE.replace("fps=50.20", "fps=50,20"), "decimal point"),
    ],
)
def test_bad_input_has_one_clear_message(text: str, error: str) -> None:
    with pytest.raises(BadRun, match=error):
        read_xplane(text.encode(), "Log.txt")


def test_it_is_told_by_its_content() -> None:
    assert is_xplane(HEAD.encode())
    assert is_xplane(ONE_LINE.encode())
    assert not is_xplane(b"fps,frametime\n")


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), at=st.integers(0, 90))
def test_arbitrary_bytes(data: bytes, at: int) -> None:
    for content in (data, ONE_LINE[:at].encode() + data + ONE_LINE[at:].encode()):
        try:
            log = read_xplane(content, "here")
        except UnreadableOutput as error:
            assert error.source == "here"
        except BadRun as error:
            assert error.message.startswith("here")
        else:
            assert all(stage.frames > 0 and stage.time.value > 0 for stage in log.stages)
