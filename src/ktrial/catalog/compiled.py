# SPDX-License-Identifier: Apache-2.0
"""The catalog in a form that loads in a few milliseconds, kept in the user's cache and renewed when a file changed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ktrial import __version__
from ktrial.catalog.model import Catalog, catalog_files
from ktrial.domain.errors import BadInput


class _Compiled(msgspec.Struct):
    stamp: list[tuple[str, int, int]]
    version: str
    catalog: Catalog


def compiled_catalog(cache: Path | None, folders: Iterable[Path] = ()) -> Catalog:
    """The catalog; from `cache` when no file changed since it was written, else read anew and written there."""
    folders = tuple(folders)
    if cache is None:
        from ktrial.catalog.loader import load_catalog

        return load_catalog(folders)
    stamp = _stamp(catalog_files(folders))
    try:
        kept = msgspec.msgpack.decode(cache.read_bytes(), type=_Compiled)
    except (OSError, msgspec.MsgspecError):
        kept = None
    if kept is not None and kept.stamp == stamp and kept.version == __version__:
        return kept.catalog
    from ktrial.catalog.loader import load_catalog

    catalog = load_catalog(folders)
    _write(cache, msgspec.msgpack.encode(_Compiled(stamp, __version__, catalog)))
    return catalog


def _stamp(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    stamp = []
    for file in files:
        try:
            status = file.stat()
        except OSError as error:
            raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
        stamp.append((str(file), status.st_mtime_ns, status.st_size))
    return stamp


def _write(cache: Path, data: bytes) -> None:
    """Replace the cache in one step. A cache that cannot be written is only slower, so that is no error."""
    part = cache.with_name(f"{cache.name}.{os.getpid()}.part")
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_bytes(data)
        part.replace(cache)
