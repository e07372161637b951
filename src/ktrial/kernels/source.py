# SPDX-License-Identifier: Apache-2.0
"""Where a kernel's sources come from, and the patches that were put on them."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK = "#sha256="

SourceKind = Literal["folder", "git", "archive", "package"]


class PatchWord(msgspec.Struct, frozen=True):
    """A patch as a person names it: a path or an https address, and what its SHA-256 must be."""

    place: str
    sha256: str | None

    @property
    def remote(self) -> bool:
        return "://" in self.place


class PatchSet(msgspec.Struct, frozen=True):
    """A well-known set of patches that was recognised, as text with its version where it is told."""

    name: str
    version: str | None


class AppliedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that is in a tree. `shifted` are hunks that were found on other lines than the patch says."""

    name: str
    place: str
    sha256: str
    files: int
    shifted: int
    families: tuple[PatchSet, ...]


class KernelSource(msgspec.Struct, frozen=True, kw_only=True):
    """Sources that a kernel is built from. `changes` are files that differ from the commit of a git tree."""

    kind: SourceKind
    place: str
    version: str
    sha256: str | None = None
    commit: str | None = None
    changes: tuple[str, ...] = ()
    patches: tuple[AppliedPatch, ...] = ()
    families: tuple[PatchSet, ...] = ()
    #: Seconds since 1970 that the build takes for the time at which it was made.
    epoch_s: int = 0


def parse_patch(word: str) -> PatchWord:
    """`PATH`, `URL#sha256=HEX` or `PATH#sha256=HEX`. What is downloaded must be known."""
    place, mark, digest = word.partition(_MARK)
    if mark and not _DIGEST.fullmatch(digest):
        raise BadInput(f"--patch {word}: the SHA-256 is not 64 hexadecimal digits in small letters")
    if not place:
        raise BadInput(f"--patch {word!r}: no file is named")
    if "://" in place and not place.startswith("https://"):
        raise BadInput(f"--patch {place}: not an https address", hint="download it yourself and give its path")
    if "://" in place and not mark:
        raise BadInput(
            f"--patch {place}: what is downloaded must be known",
            hint=f"look at it, then add its digest: {place}{_MARK}HEX (sha256sum FILE)",
        )
    return PatchWord(place, digest or None)
