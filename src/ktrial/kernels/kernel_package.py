# SPDX-License-Identifier: Apache-2.0
"""Kernels that a distribution's source package made with its own packaging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from ktrial.kernels.build_record import BuildCost
from ktrial.kernels.identity import KernelIdentity
from ktrial.kernels.source import AppliedPatch

Packaging = Literal["debian", "rpm", "arch"]


class Found(NamedTuple):
    """A source package: how it is packed, and the file or folder that it is."""

    packaging: Packaging
    place: str


class PackageFile(msgspec.Struct, frozen=True, kw_only=True):
    """A package that was made; `identity` is that of the kernel in it, None where it holds none that can be read."""

    path: str
    sha256: str
    identity: KernelIdentity | None = None


class KernelPackaged(msgspec.Struct, frozen=True, kw_only=True):
    """`ktrial.kernel-package/1`. `sha256` is None of a folder, `command` what made the packages."""

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
