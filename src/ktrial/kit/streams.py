# SPDX-License-Identifier: Apache-2.0
"""Write to standard output and error: escape text that would control the terminal, and cope if the reader has gone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, TextIO, cast

from ktrial.kit.errors import KtrialError
from ktrial.kit.plain_text import plain


class PlainStream:
    """A stream that escapes text. Its `buffer` takes raw bytes, its `bare` takes codes that move the cursor."""

    def __init__(self, stream: TextIO, spell: Callable[[str], str] | None = None) -> None:
        self.bare = stream
        self.has_text = False
        self._spell = spell

    def write(self, text: str) -> int:
        self.has_text = True
        return self.bare.write(plain(self.spell(text)))

    def spell(self, text: str) -> str:
        """Return the text with its commands spelled as the reader of this stream can run them."""
        return self._spell(text) if self._spell else text

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def plain_stream(stream: TextIO, spell: Callable[[str], str] | None = None) -> TextIO:
    """Wrap a stream so that it escapes text; `spell` rewrites the text first."""
    return cast("TextIO", PlainStream(stream, spell))


def bare(stream: TextIO) -> TextIO:
    """Return the stream without the escaping, for callers that move the cursor and escape their text themselves."""
    return stream.bare if isinstance(stream, PlainStream) else stream


def spell(stream: TextIO, text: str) -> str:
    """Return the text with its commands spelled as its reader can run them, for callers that use `bare` or a pager."""
    return stream.spell(text) if isinstance(stream, PlainStream) else text


def has_text(stream: TextIO) -> bool:
    """Return whether anything was written to the stream; true if it is not wrapped."""
    return not isinstance(stream, PlainStream) or stream.has_text


def tell(stream: TextIO, text: str) -> None:
    """Write and flush a text. Raise KtrialError if the reader closed the pipe; ignore a terminal that has gone."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise KtrialError(
            "stopped because the reader closed the pipe",
            hint="run the same command again; a measurement continues after its finished runs",
        ) from None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # The terminal has gone: its SIGHUP ends the measurement in order, unless it is ignored (nohup).


def draw(stream: TextIO, text: str) -> None:
    """Write and flush codes that move the cursor, without escaping; otherwise like `tell`."""
    tell(bare(stream), text)


def pass_on(stream: TextIO, data: bytes) -> None:
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode(errors="replace"))
        return
    stream.flush()
    raw.write(data)
    raw.flush()
