# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as all of ktrial writes to them: no text of anybody's steers the terminal."""

from __future__ import annotations

from typing import Any, TextIO, cast

from ktrial.kit.plain_text import plain


class PlainStream:
    """A stream whose text is plain. Bytes that are passed on as they are go to its `buffer`, drawings to `bare`."""

    def __init__(self, stream: TextIO) -> None:
        self.bare = stream

    def write(self, text: str) -> int:
        """Write it with escapes for what would steer."""
        return self.bare.write(plain(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def plain_stream(stream: TextIO) -> TextIO:
    """Such a stream."""
    return cast("TextIO", PlainStream(stream))


def bare(stream: TextIO) -> TextIO:
    """The stream below, for those who move the cursor themselves and clean what they show."""
    return stream.bare if isinstance(stream, PlainStream) else stream
