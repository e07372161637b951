# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as all of ktrial writes to them.

No text of anybody's steers the terminal, and whoever reads may have gone away meanwhile.
"""

from __future__ import annotations

import errno
from typing import Any, TextIO, cast

from ktrial.kit.errors import KtrialError
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
    return cast("TextIO", PlainStream(stream))


def bare(stream: TextIO) -> TextIO:
    """Return the stream below, for those who move the cursor themselves and clean what they show."""
    return stream.bare if isinstance(stream, PlainStream) else stream


def tell(stream: TextIO, text: str) -> None:
    """Write at once. Raises KtrialError when nobody reads on; a terminal that has gone is no reason to stop."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise KtrialError(
            "nobody reads on, so measuring has ended; the runs that were made are kept",
            hint="the same command goes on with it",
        ) from None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # The terminal has gone: its SIGHUP ends the measurement in order, unless somebody wants it to go on.


def draw(stream: TextIO, text: str) -> None:
    """Write at once what moves the cursor, as `tell` does."""
    tell(bare(stream), text)


def pass_on(stream: TextIO, data: bytes) -> None:
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode(errors="replace"))
        return
    stream.flush()
    raw.write(data)
    raw.flush()
