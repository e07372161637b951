# SPDX-License-Identifier: Apache-2.0
"""The question of a comparison, stored with the answer so that anybody can ask it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.outcome import Direction


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's options for a file.

    `below_fps` applies to logs of frames. `by`, `block` and `where` name columns of a table, or other facts about the
    runs of a file. The other options, except `label`, apply to tables: they name columns or supply what the file lacks.
    Options added later are absent unless given, so that the digests of published questions stay valid.
    """

    label: str | None = None
    values: tuple[str, ...] = ()
    where: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    groups: str | msgspec.UnsetType = msgspec.UNSET
    by: str | None = None
    block: str | None = None
    benchmark: str | None = None
    unit: str | None = None
    direction: Direction | None = None
    below_fps: float | msgspec.UnsetType = msgspec.UNSET

    @staticmethod
    def given(options: Mapping[str, Any]) -> ImportOptions:
        """Return the options that are neither None nor empty."""
        return ImportOptions(**{name: value for name, value in options.items() if value not in (None, ())})

    @property
    def of_frames(self) -> tuple[str, ...]:
        """Return the given options that apply only to logs of frames, as spelled on the command line."""
        return () if self.below_fps is msgspec.UNSET else ("--below-fps",)

    @property
    def of_tables(self) -> tuple[str, ...]:
        """Return the given options that apply only to tables, as spelled on the command line."""
        given = {
            "--value": self.values,
            "--groups": self.groups,
            "--benchmark": self.benchmark,
            "--unit": self.unit,
            "--direction": self.direction,
        }
        return tuple(name for name, value in given.items() if value)


class AskedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A result file: its name as given, from which ktrial names its runs, and the digest of its bytes."""

    path: str
    sha256: str


class AskedSource(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of the question: sessions, the oldest first, or files.

    Without a name, each group of a file or arm of a trial becomes an arm of the comparison.
    """

    name: str | None
    sessions: tuple[str, ...] = ()
    files: tuple[AskedFile, ...] = ()


class AskedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All input of a comparison besides the data; the fields match the options of `ktrial compare`.

    `pool` is absent unless requested. `declared` is verbatim, `excluded` maps runs to reasons, `margin` and `spread`
    are relative.
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
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()
