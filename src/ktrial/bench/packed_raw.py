# SPDX-License-Identifier: Apache-2.0
"""Raw output that a tool or a person has compressed: open it, and scrub its content."""

from __future__ import annotations

from collections.abc import Iterator

from ktrial.kit.errors import BadInput
from ktrial.kit.formats.packed import opened
from ktrial.kit.scrub import Scrubber

#: ktrial opens at most this many layers of compression.
_MOST_LAYERS = 3


def layers(data: bytes) -> Iterator[bytes]:
    """Yield the bytes, then the content of each compressed layer.

    Raise BadInput for an invalid layer, or for too many layers.
    """
    yield data
    for _ in range(_MOST_LAYERS):
        found = opened(data)
        if found is None:
            return
        data = found.inner
        yield data
    if opened(data) is not None:
        raise BadInput(f"the data are compressed more than {_MOST_LAYERS} times", hint="unpack the file first")


def scrubbed(data: bytes, scrubber: Scrubber, *, places_only: bool = False) -> bytes:
    """Return the bytes without identifying names. Compressed content that changed is compressed again the same way."""
    found = opened(data)
    if found is None:
        return scrubber.raw(data, places_only=places_only)
    inner = scrubbed(found.inner, scrubber, places_only=places_only)
    return data if inner == found.inner and found.bare else found.pack(inner)
