# SPDX-License-Identifier: Apache-2.0
"""Packages a built kernel with the kernel's own make targets."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ktrial.kernels.build_record import Package, PackageKind
from ktrial.kit.errors import KtrialError, Refused

FOLDER = "packages"
_MAKEFILE, _RULES = "scripts/Makefile.package", "scripts/package/debian/rules"
_HELPER = "dh_listpackages"
#: Files that dpkg writes about the packages it built.
_TOLD = (".buildinfo", ".changes")
_DEB_LEFT = ("../*.deb", *(f"../*{suffix}" for suffix in _TOLD))


class Packing(NamedTuple):
    """How make builds packages of one kind. `programs` must be installed, and `left` matches the package files."""

    target: str
    programs: tuple[str, ...]
    #: Patterns relative to the build folder.
    left: tuple[str, ...]
    variables: Mapping[str, str]


PACKINGS: Mapping[PackageKind, Packing] = {
    "deb": Packing("bindeb-pkg", ("dpkg-buildpackage", "rsync", "cpio"), _DEB_LEFT, {"DPKG_FLAGS": "-d"}),
    "rpm": Packing("binrpm-pkg", ("rpmbuild",), ("rpmbuild/RPMS/*/*.rpm",), {}),
    "pacman": Packing(
        *("pacman-pkg", ("makepkg", "pacman", "fakeroot", "bsdtar"), ("*.pkg.tar*", "pacman/*.pkg.tar*")),
        {"MAKEPKGOPTS": "--nodeps --force"},
    ),
    "tar": Packing("targz-pkg", ("tar", "gzip"), ("*.tar.gz",), {}),
}


def needed_programs(kind: PackageKind, tree: Path) -> tuple[str, ...]:
    """Return the programs that packaging needs, including debhelper if the tree's `debian/rules` uses it."""
    rules = tree / _RULES
    helped = kind == "deb" and rules.is_file() and "dh_" in rules.read_text(encoding="utf-8", errors="replace")
    return (*PACKINGS[kind].programs, *((_HELPER,) if helped else ()))


def check_packing(kind: PackageKind, tree: Path) -> None:
    packing = PACKINGS[kind]
    text = (tree / _MAKEFILE).read_text(encoding="utf-8", errors="replace") if (tree / _MAKEFILE).is_file() else ""
    if packing.target not in text and not (kind == "tar" and "tar%-pkg" in text):
        hint = "use a newer kernel" if kind == "tar" else "use --package tar, or a newer kernel"
        raise Refused(f"this tree has no make target {packing.target}", hint=hint)
    if kind == "pacman" and os.geteuid() == 0:
        raise Refused("cannot build pacman packages: makepkg does not run as root", hint="build as an ordinary user")


def variables_of(kind: PackageKind, out: Path) -> dict[str, str]:
    """Return the extra variables that make needs for packages of this kind.

    Without RPMOPTS, trees before 6.4 leave RPM packages in the user's home.
    """
    if kind == "rpm":
        return {"RPMOPTS": f"--nodeps --define '_topdir {out}/rpmbuild'"}
    return dict(PACKINGS[kind].variables)


class PackagesBefore:
    """Remembers which package files exist, to collect only packages that are built afterwards."""

    def __init__(self, kind: PackageKind, out: Path) -> None:
        self._kind = kind
        self._out = out
        self._before = {path: _stamp(path) for path in self._find_packages()}

    def collect(self) -> tuple[Package, ...]:
        """Move all new files into FOLDER, and return the packages among them. Raise KtrialError if no file is new."""
        new = [path for path in self._find_packages() if self._before.get(path) != _stamp(path)]
        if not new:
            raise KtrialError(
                f"make {PACKINGS[self._kind].target} succeeded but wrote no new package",
                hint=f"read {self._out}/ktrial-{PACKINGS[self._kind].target}.log",
            )
        into = self._out / FOLDER
        into.mkdir(exist_ok=True)
        moved = [Path(shutil.move(path, into / path.name)) for path in sorted(new)]
        packages = [path for path in moved if path.suffix not in _TOLD]
        return tuple(Package(str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in packages)

    def _find_packages(self) -> list[Path]:
        return [path.resolve() for pattern in PACKINGS[self._kind].left for path in _glob(self._out, pattern)]


def _glob(out: Path, pattern: str) -> list[Path]:
    if pattern.startswith("../"):
        return sorted(out.resolve().parent.glob(pattern.removeprefix("../")))
    return sorted(out.glob(pattern))


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
