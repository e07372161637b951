# SPDX-License-Identifier: Apache-2.0
"""Raw bytes by their SHA-256, packed, each kept once."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
import zstandard

from ktrial.kit.errors import KtrialError
from ktrial.results.store.database import insert_new
from ktrial.results.store.schema import blobs

_LEVEL = 3


def put(connection: sa.Connection, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    if connection.execute(sa.select(blobs.c.sha256).where(blobs.c.sha256 == name)).scalar() is None:
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
        connection.execute(insert_new(connection, blobs).values(sha256=name, size_bytes=len(data), packed=packed))
    return name


def get(connection: sa.Connection, name: str) -> bytes:
    """Return the bytes of this name; raises KtrialError when they are not there or not what they were."""
    row = connection.execute(sa.select(blobs.c.size_bytes, blobs.c.packed).where(blobs.c.sha256 == name)).first()
    if row is None:
        raise KtrialError(f"the store has no raw output {name[:12]}…")
    try:
        data = zstandard.ZstdDecompressor().decompress(row.packed, max_output_size=max(1, row.size_bytes))
    except zstandard.ZstdError:
        data = b""
    if hashlib.sha256(data).hexdigest() != name:
        raise KtrialError(f"raw output {name[:12]}… is damaged in the store: it no longer is what was recorded")
    return data
