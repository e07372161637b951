# SPDX-License-Identifier: Apache-2.0
"""Messages of the session bus, and where it is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.around.session_bus import BusError, Message, Take, encoded, read_message, session_desktop, text

FIELDS: dict[int, str | int] = {1: "/org/x", 2: "org.x", 3: "Inhibit", 5: 7, 6: "org.x", 8: "ss"}
MESSAGE = encoded(2, 3, FIELDS, text("ktrial", "why"))


def taking(data: bytes) -> Take:
    stream = io.BytesIO(data)

    def take(count: int) -> bytes:
        found = stream.read(count)
        if len(found) < count:
            raise BusError("ended")
        return found

    return take


def test_a_message_is_read_as_it_was_written() -> None:
    assert read_message(taking(MESSAGE)) == Message(2, 3, FIELDS, text("ktrial", "why"), "<")


def test_a_message_in_the_other_order_of_bytes() -> None:
    header = b"\5\1u\0" + (9).to_bytes(4, "big")
    lengths = b"".join(number.to_bytes(4, "big") for number in (4, 1, len(header)))
    found = read_message(taking(b"B\2\0\1" + lengths + header + b"\0\0\0\x2a"))
    assert (found.fields, found.body, found.order) == ({5: 9}, b"\0\0\0\x2a", ">")


@given(st.binary(max_size=80), st.integers(0, len(MESSAGE)), st.integers(0, 30))
def test_whatever_comes_is_read_or_refused(data: bytes, at: int, gone: int) -> None:
    for told in (data, b"l\2\0\1" + data, MESSAGE[:at] + data + MESSAGE[at + gone :]):
        try:
            found = read_message(taking(told))
        except BusError:
            continue
        assert found.order in "<>"


def test_a_message_without_end_is_refused() -> None:
    with pytest.raises(BusError, match="a message of"):
        read_message(taking(b"l\2\0\1" + b"\xff" * 12))


def test_where_the_bus_is(tmp_path: Path) -> None:
    assert session_desktop({}, tmp_path) is None
    assert session_desktop({"DBUS_SESSION_BUS_ADDRESS": "tcp:host=x"}, tmp_path) is None
    gone = session_desktop({"DBUS_SESSION_BUS_ADDRESS": f"tcp:host=x;unix:guid=1,path={tmp_path}/bus"}, tmp_path)
    assert gone is not None
    assert gone.keep_awake("a test") == "session bus: No such file or directory"
    gone.release()
