# SPDX-License-Identifier: Apache-2.0
"""Kernel packages built from a distribution's source package with its own packaging, and their text form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from ktrial.bench.text import duration
from ktrial.kernels.build_record import BuildCost
from ktrial.kernels.identity import KernelIdentity
from ktrial.kernels.source import AppliedPatch
from ktrial.kit.tables import labelled


def packaged_text(made: KernelPackaged, *, width: int) -> str:
    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width) + "\n"

    text = line("sources", f"{made.place}{f', SHA-256 {made.sha256[:12]}…' if made.sha256 else ''}")
    for patch in made.patches:
        text += line("patch", f"{patch.name} ({patch.files} files), SHA-256 {patch.sha256[:12]}…")
    text += line("command", " ".join(made.command))
    text += line("took", f"{duration(made.cost.wall_s)}, {duration(made.cost.cpu_s)} of CPU")
    for package in made.packages:
        text += line("package", package.path)
        if package.identity is not None:
            identity = package.identity
            text += line("kernel", f"{identity.release}, {identity.compiler or 'compiler unknown'}")
    return text


Packaging = Literal["debian", "rpm", "arch"]


class SourcePackage(NamedTuple):
    """A source package. `place` is its file or folder."""

    packaging: Packaging
    place: str


class PackageFile(msgspec.Struct, frozen=True, kw_only=True):
    """A package that was built. `identity` describes the kernel in it, None if ktrial finds no kernel."""

    path: str
    sha256: str
    identity: KernelIdentity | None = None


class KernelPackaged(msgspec.Struct, frozen=True, kw_only=True):
    """Built packages, `ktrial.kernel-package/1`. `sha256` is the digest of the source package, None for a folder."""

    folder: str
    place: str
    packaging: Packaging
    sha256: str | None
    patches: tuple[AppliedPatch, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    cost: BuildCost
    packages: tuple[PackageFile, ...]
    ended_unix_ms: int
    schema: str = "ktrial.kernel-package/1"
