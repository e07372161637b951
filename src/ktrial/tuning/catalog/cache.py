# SPDX-License-Identifier: Apache-2.0
"""Cache the catalog in a form that loads in a few milliseconds; ktrial rebuilds it when a file changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ktrial import __version__
from ktrial.kit.errors import BadInput
from ktrial.kit.files import why_unread
from ktrial.kit.toml_files import BUILT_IN
from ktrial.machine.facts import FactKind
from ktrial.tuning.catalog.model import Catalog, CatalogSource, catalog_files
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Profile

T = TypeVar("T")
#: Changes to these modules change the layout of the packed values.
_SHAPES = [
    BUILT_IN.parent / place
    for place in ("tuning/catalog/model.py", "machine/facts.py", "tuning/knobs/knob.py", "tuning/knobs/profile.py")
]


class _Compiled(msgspec.Struct):
    stamp: list[tuple[str, int, int]]
    version: str
    knobs: dict[str, msgspec.Raw]
    profiles: dict[str, msgspec.Raw]
    kinds: dict[str, msgspec.Raw]
    sources: dict[str, msgspec.Raw]
    own: dict[str, str]


class _Packed(Mapping[str, T]):
    """A mapping whose values are decoded on access, because explaining one knob needs only one of them."""

    def __init__(self, packed: Mapping[str, msgspec.Raw], shape: type[T]) -> None:
        self._packed = packed
        self._shape = shape
        self._decoded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._decoded:
            self._decoded[name] = msgspec.msgpack.decode(self._packed[name], type=self._shape)
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, name: object) -> bool:
        return name in self._packed


def _pack(values: Mapping[str, object]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.msgpack.encode(value)) for name, value in values.items()}


def compiled_catalog(cache: Path | None, folders: Iterable[Path] = ()) -> Catalog:
    """Return the catalog from the file `cache`, which ktrial first writes if it is missing or outdated.

    If `cache` is None, only read the catalog files.
    """
    folders = tuple(folders)
    if cache is None:
        from ktrial.tuning.catalog.loader import load_catalog

        return load_catalog(folders)
    stamp = _stamp([*catalog_files(folders), *_SHAPES])
    try:
        kept = msgspec.msgpack.decode(cache.read_bytes(), type=_Compiled)
    except (OSError, msgspec.MsgspecError):
        kept = None
    if kept is not None and kept.stamp == stamp and kept.version == __version__:
        return Catalog(
            _Packed(kept.knobs, Knob),
            _Packed(kept.profiles, Profile),
            _Packed(kept.kinds, FactKind),
            _Packed(kept.sources, CatalogSource),
            kept.own,
        )
    from ktrial.tuning.catalog.loader import load_catalog

    catalog = load_catalog(folders)
    knobs, profiles, kinds, sources = map(_pack, (catalog.knobs, catalog.profiles, catalog.kinds, catalog.sources))
    packed = _Compiled(stamp, __version__, knobs, profiles, kinds, sources, dict(catalog.own))
    _write(cache, msgspec.msgpack.encode(packed))
    return catalog


def _stamp(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    stamp = []
    for file in files:
        try:
            status = file.stat()
        except OSError as error:
            raise BadInput(
                why_unread(error), file=str(file), hint="remove the file, or make its folder accessible"
            ) from None
        stamp.append((str(file), status.st_mtime_ns, status.st_size))
    return stamp


def _write(cache: Path, data: bytes) -> None:
    """Replace the cache atomically. A failure is ignored, because ktrial is only slower without a cache."""
    part = cache.with_name(f"{cache.name}.{os.getpid()}.part")
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_bytes(data)
        part.replace(cache)
