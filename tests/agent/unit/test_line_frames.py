# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.agent.line_frames import BEGUN, END, ENDED, ERRORS, OUTPUT, Frame, Garbled, LineFrames, encode_frame

KINDS = st.sampled_from([BEGUN, OUTPUT, ERRORS, ENDED, END])


@settings(max_examples=50)
@given(st.lists(st.tuples(KINDS, st.binary(max_size=40)), max_size=6), st.integers(1, 30))
def test_frames_come_whole_from_any_pieces(frames: list[tuple[bytes, bytes]], size: int) -> None:
    line = b"".join(encode_frame(kind, content) for kind, content in frames)
    reader, found = LineFrames(), []
    for at in range(0, len(line), size):
        found += reader.feed(line[at : at + size])
    assert found == [Frame(kind, content) for kind, content in frames]


@settings(max_examples=50)
@given(st.binary(max_size=100))
def test_any_bytes_are_frames_or_garbled(line: bytes) -> None:
    try:
        found = LineFrames().feed(line)
    except Garbled:
        return
    assert sum(5 + len(frame.content) for frame in found) <= len(line)


def test_what_a_program_writes_into_the_line_is_told() -> None:
    with pytest.raises(Garbled, match="expected a message from the agent, got b'hello") as caught:
        LineFrames().feed(encode_frame(OUTPUT, b"x") + b"hello world")
    assert "/dev/ttyS1" in str(caught.value.hint)
