# SPDX-License-Identifier: Apache-2.0
"""Writing to somebody who may have gone away meanwhile."""

from __future__ import annotations

import errno
from typing import TextIO

from ktrial.kit.errors import KtrialError
from ktrial.kit.plain_stream import bare


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
    """Write somebody else's bytes as they are."""
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode(errors="replace"))
        return
    stream.flush()
    raw.write(data)
    raw.flush()
