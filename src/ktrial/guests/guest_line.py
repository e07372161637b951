# SPDX-License-Identifier: Apache-2.0
"""The frames that a guest's first process sends to the head: kind, length, content (`docs/formats.md`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ktrial.kit.errors import KtrialError

BEGUN, OUTPUT, ERRORS, ENDED, END = b"B", b"o", b"e", b"x", b"z"
#: Sessions in a guest: the head starts one, sends it bytes and kills it; the guest says what it took, what a session
#: says, and how that ended.
START, INPUT, KILL, TAKEN, SAID, OVER = b"S", b"i", b"K", b"a", b"s", b"X"
#: In a script, which stands for the head: nothing more is taken until a session has said so many lines, or so many that
#: end a request; or has ended.
WAIT, REPLIES = b"W", b"R"
_KINDS = (BEGUN, OUTPUT, ERRORS, ENDED, END, TAKEN, SAID, OVER)
_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">I")
#: More than that is not a frame.
LONGEST_BYTES = 1 << 26


class Frame(NamedTuple):
    """A frame: what it is, its content."""

    kind: bytes
    content: bytes


class Garbled(KtrialError):
    """What came over the line is not a frame."""


def encode_frame(kind: bytes, content: bytes) -> bytes:
    return _HEADER.pack(kind, len(content)) + content


def numbered(session: int, content: bytes) -> bytes:
    """Return what belongs to a session, as the content of a frame."""
    return _NUMBER.pack(session) + content


def number_of(content: bytes) -> tuple[int, bytes]:
    """Return the session that a frame belongs to, and the rest. Raises Garbled."""
    if len(content) < _NUMBER.size:
        raise Garbled(f"a frame of a session without its number: {content!r}")
    return _NUMBER.unpack_from(content)[0], content[_NUMBER.size :]


class GuestLineFrames:
    """Puts frames together from pieces of a line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[Frame]:
        """Return the frames that are whole with this piece. Raises Garbled if the line does not carry frames."""
        self._rest += piece
        found: list[Frame] = []
        at = 0
        while len(self._rest) - at >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._rest, at)
            if kind not in _KINDS or length > LONGEST_BYTES:
                raise Garbled(
                    f"the guest's line carries {bytes(self._rest[at : at + 16])!r} where a frame begins",
                    hint="a program in the guest wrote to /dev/ttyS1, which is ktrial's own",
                )
            begin = at + _HEADER.size
            if len(self._rest) < begin + length:
                break
            found.append(Frame(kind, bytes(self._rest[begin : begin + length])))
            at = begin + length
        del self._rest[:at]
        return found
