# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.guests.agent_replies import read_replies
from ktrial.kit.errors import UnreadableOutput


def test_replies_are_told_by_their_numbers_and_a_cut_one_never_came() -> None:
    found = read_replies(b'{"id":2,"ok":{"a":1}}\n{"id":3,"error":{"kind":"io","message":"no"}}\n{"id":4,"ok":{')
    assert list(found) == [2, 3]
    assert found[2].ok == {"a": 1}
    assert found[3].error is not None
    assert (found[3].error.kind, found[3].error.message) == ("io", "no")


@pytest.mark.parametrize(
    "line", [b"x", b"{}", b'{"id":null,"ok":{}}', b'{"id":1}', b'{"id":1,"ok":{},"error":{"kind":"a","message":"b"}}']
)
def test_what_is_no_reply_is_told_with_its_line(line: bytes) -> None:
    with pytest.raises(UnreadableOutput, match="replies:2: "):
        read_replies(b'{"id":1,"ok":{}}\n' + line + b"\n")


@settings(max_examples=50)
@given(st.binary(max_size=80))
def test_any_bytes_are_replies_or_unreadable(data: bytes) -> None:
    try:
        read_replies(data)
    except UnreadableOutput as error:
        assert error.message
