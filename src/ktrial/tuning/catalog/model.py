# SPDX-License-Identifier: Apache-2.0
"""The content of the catalog, and the files that it is read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ktrial.kit.toml_files import BUILT_IN
from ktrial.machine.facts import FactKind
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Profile


class CatalogSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The origin of claims: what was measured on which machine and how, and reasons to doubt it."""

    key: str
    title: str
    kind: str
    machine: str | None = None
    method: str | None = None
    address: str | None = None
    doubts: tuple[str, ...] = ()


class Catalog(msgspec.Struct, frozen=True):
    """Everything in the catalog's files. `own` maps knobs that are not built in to their files."""

    knobs: Mapping[str, Knob]
    profiles: Mapping[str, Profile]
    kinds: Mapping[str, FactKind]
    sources: Mapping[str, CatalogSource]
    own: Mapping[str, str] = {}


def own_files(catalog: Catalog) -> dict[str, bytes]:
    """Return the content of each file with knobs that are not built in, by path."""
    return {file: Path(file).read_bytes() for file in dict.fromkeys(catalog.own.values())}


def catalog_files(folders: Iterable[Path]) -> list[Path]:
    """Return the files of knobs, profiles, facts and sources in the order in which ktrial reads them."""
    files = [BUILT_IN / "facts.toml", BUILT_IN / "sources.toml"]
    for folder in (BUILT_IN, *folders):
        files += sorted((folder / "knobs").glob("*.toml"))
        files += sorted((folder / "profiles").glob("*.toml"))
    return files
