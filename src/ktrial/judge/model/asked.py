# SPDX-License-Identifier: Apache-2.0
"""The question of a comparison as it is kept with the answer, so that somebody else can put it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.results.foreign import ImportOptions


class AskedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A result file by the name that was given, which its runs are called by, and the digest of its bytes."""

    path: str
    sha256: str


class AskedSource(msgspec.Struct, frozen=True, kw_only=True):
    """One word of the question: sessions, the oldest first, or files.

    Without a name the groups of a file, or the arms of a trial, are the arms.
    """

    name: str | None
    sessions: tuple[str, ...] = ()
    files: tuple[AskedFile, ...] = ()


class AskedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All that a comparison was told, beside the data. Fields are those of the options of `ktrial compare`.

    `pool` is absent where it was not asked. `declared` is as it was written, `excluded` are runs with their reasons,
    `margin` and `spread` are relative.
    """

    sources: tuple[AskedSource, ...]
    as_format: str | None = None
    options: ImportOptions = ImportOptions()
    control: str | None = None
    margin: float | None = None
    primary: str | None = None
    tiers: bool = False
    pool: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    declared: tuple[str, ...] = ()
    accepted: str | None = None
    excluded: Mapping[str, str] = {}
    spread: float = 0.25

    @property
    def sha256(self) -> str:
        """The digest of the whole question."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()
