# SPDX-License-Identifier: Apache-2.0
"""The sources of a kernel, and the patches applied to them."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK = "#sha256="

SourceKind = Literal["folder", "git", "archive", "package"]


class PatchWord(msgspec.Struct, frozen=True):
    """A patch as named on the command line: a path or an https URL, and its expected SHA-256."""

    place: str
    sha256: str | None

    @property
    def remote(self) -> bool:
        return "://" in self.place


class PatchSet(msgspec.Struct, frozen=True):
    """A well-known patch set that ktrial recognises. `version` is None if the files don't state a version."""

    name: str
    version: str | None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} {self.version}"


class AppliedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch applied to a tree. `shifted` counts hunks that applied at an offset."""

    name: str
    place: str
    sha256: str
    files: int
    shifted: int
    families: tuple[PatchSet, ...]


class KernelSource(msgspec.Struct, frozen=True, kw_only=True):
    """Sources to build a kernel from. `changes` are files that differ from the commit of a git tree."""

    kind: SourceKind
    place: str
    version: str
    sha256: str | None = None
    commit: str | None = None
    changes: tuple[str, ...] = ()
    patches: tuple[AppliedPatch, ...] = ()
    families: tuple[PatchSet, ...] = ()
    #: The build time that the build records, in seconds since 1970.
    epoch_s: int = 0


def parse_patch(word: str) -> PatchWord:
    """Parse `PATH`, `URL#sha256=HEX` or `PATH#sha256=HEX`. A download needs a digest."""
    place, mark, digest = word.partition(_MARK)
    if mark and not _DIGEST.fullmatch(digest):
        raise BadInput(
            f"--patch {word}: expected a SHA-256 of 64 lower-case hexadecimal digits",
            hint="write the digest that `sha256sum FILE` prints",
        )
    if not place:
        raise BadInput(f"--patch {word!r}: expected a file or an https URL", hint="give the path of the patch")
    if "://" in place and not place.startswith("https://"):
        raise BadInput(f"--patch {place}: expected an https URL", hint="give the path of a downloaded patch")
    if "://" in place and not mark:
        raise BadInput(
            f"--patch {place}: a download needs a SHA-256",
            hint=f"write {place}{_MARK}HEX, with the digest (sha256sum) of the patch that you reviewed",
        )
    return PatchWord(place, digest or None)
