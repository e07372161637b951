# SPDX-License-Identifier: Apache-2.0
"""Build a distribution's source package with its own packaging, and read what kernels its packages hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktrial.kernels.build_record import BuildCost
from ktrial.kernels.kernel_package import KernelPackaged, PackageFile, SourcePackage
from ktrial.kernels.source import AppliedPatch
from ktrial.kit.errors import KtrialError

#: What the log of the build is called by.
TARGET = "packages"


class PackageBuilding(Protocol):
    """Runs the command."""

    def run(self, target: str, jobs: int) -> BuildCost:
        """Raises KtrialError if it fails."""


class Packs(Protocol):
    """The packaging, in the folder of the build."""

    @property
    def found(self) -> SourcePackage: ...

    @property
    def sha256(self) -> str | None:
        """That of the file; None of a folder."""

    @property
    def out(self) -> Path: ...

    @property
    def told(self) -> Mapping[str, str]:
        """What it is told through the environment."""

    def check_needs(self) -> None:
        """Raise Refused if something that it needs is not here."""

    def argv(self) -> Sequence[str]: ...

    def left(self) -> list[Path]: ...


def package_kernel(
    packs: Packs,
    patches: tuple[AppliedPatch, ...],
    build: PackageBuilding,
    read: Callable[[Path], PackageFile],
    unix_ms: Callable[[], int],
) -> KernelPackaged:
    """`patches` are on the sources already. Raises KtrialError if nothing new was packed."""
    packs.check_needs()
    command = tuple(packs.argv())
    before = {path: path.stat().st_mtime_ns for path in packs.left()}
    cost = build.run(TARGET, 1)
    made = [path for path in packs.left() if before.get(path) != path.stat().st_mtime_ns]
    if not made:
        raise KtrialError(f"{' '.join(command)} ended well, and left no package", hint=f"look into {packs.out}")
    return KernelPackaged(
        folder=str(packs.out),
        place=packs.found.place,
        packaging=packs.found.packaging,
        sha256=packs.sha256,
        patches=patches,
        command=command,
        environment=dict(packs.told),
        cost=cost,
        packages=tuple(read(path) for path in made),
        ended_unix_ms=unix_ms(),
    )
