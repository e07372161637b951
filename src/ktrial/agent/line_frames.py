# SPDX-License-Identifier: Apache-2.0
"""The frames between the head and a guest or another machine: kind, length, content (`docs/formats.md`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ktrial.kit.errors import KtrialError

BEGUN, OUTPUT, ERRORS, ENDED, END = b"B", b"o", b"e", b"x", b"z"
#: Sessions: the head starts one, sends it input and kills it; the other end reports the bytes it has read, a session's
#: output, and its end.
START, INPUT, KILL, TAKEN, SAID, OVER = b"S", b"i", b"K", b"a", b"s", b"X"
#: For another machine: end all sessions if the head sends nothing for this many seconds; 0 waits for ever.
SILENCE = b"q"
#: The same limit, between the next request of a session and its reply.
NEXT_SILENCE = b"Q"
#: Only in a script, which replaces the head: stop reading until a session has written a number of lines, or of lines
#: that end a request, or has ended.
WAIT, REPLIES = b"W", b"R"
_KINDS = (BEGUN, OUTPUT, ERRORS, ENDED, END, TAKEN, SAID, OVER)
_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">I")
#: A longer frame is an error.
LONGEST_BYTES = 1 << 26


class Frame(NamedTuple):
    """One message on the line: its kind, a constant of this module such as BEGUN, and its content."""

    kind: bytes
    content: bytes


class Garbled(KtrialError):
    """The line carries something that is not a valid frame."""


def encode_frame(kind: bytes, content: bytes) -> bytes:
    return _HEADER.pack(kind, len(content)) + content


def numbered(session: int, content: bytes) -> bytes:
    return _NUMBER.pack(session) + content


def number_of(content: bytes) -> tuple[int, bytes]:
    """Return the number of a frame's session, and the rest of the content. Raise Garbled if the number is missing."""
    if len(content) < _NUMBER.size:
        raise Garbled(f"a message from the agent lacks the number of its session: {content!r}")
    return _NUMBER.unpack_from(content)[0], content[_NUMBER.size :]


class LineFrames:
    """Assembles frames from pieces of the line; `hint` says what to do if something else writes to the line."""

    def __init__(
        self, hint: str = "check that no program in the guest writes to /dev/ttyS1, which belongs to ktrial"
    ) -> None:
        self._rest = bytearray()
        self._hint = hint

    def feed(self, piece: bytes) -> list[Frame]:
        """Return the frames that this piece completes. Raise Garbled if the line carries anything but frames."""
        self._rest += piece
        found: list[Frame] = []
        at = 0
        while len(self._rest) - at >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._rest, at)
            if kind not in _KINDS or length > LONGEST_BYTES:
                raise Garbled(
                    f"expected a message from the agent, got {bytes(self._rest[at : at + 16])!r}",
                    hint=self._hint,
                )
            begin = at + _HEADER.size
            if len(self._rest) < begin + length:
                break
            found.append(Frame(kind, bytes(self._rest[begin : begin + length])))
            at = begin + length
        del self._rest[:at]
        return found
