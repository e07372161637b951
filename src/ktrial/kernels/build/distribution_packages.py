# SPDX-License-Identifier: Apache-2.0
"""Builds a distribution's source package with its own packaging: debian/rules, an RPM spec, a PKGBUILD.

Afterwards ktrial identifies the kernels in the built packages.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ktrial.kernels.build.make import NOT_INHERITED, run
from ktrial.kernels.build.patches import Patch, apply
from ktrial.kernels.build.run_build import KernelBuild
from ktrial.kernels.build.toolchain import install_step
from ktrial.kernels.kernel_package import KernelPackaged, PackageFile, Packaging, SourcePackage
from ktrial.kernels.source import AppliedPatch
from ktrial.kit.errors import BadInput, KtrialError, Refused

#: The name of the build in its log's file name.
TARGET = "packages"
SOURCE = "source"
_NOTE = f"{SOURCE}.json"
#: Folders with links to ccache under the names of compilers.
_CACHED = ("usr/lib/ccache/bin", "usr/lib/ccache", "usr/lib64/ccache")
_PROGRAMS: Mapping[Packaging, tuple[str, ...]] = {
    "debian": ("dpkg-buildpackage", "dpkg-source", "dpkg-checkbuilddeps"),
    "rpm": ("rpmbuild",),
    "arch": ("makepkg", "pacman", "fakeroot", "bsdtar"),
}
_LEFT: Mapping[Packaging, tuple[str, ...]] = {
    "debian": ("*.deb",),
    "rpm": ("rpm/RPMS/*/*.rpm",),
    "arch": (f"{SOURCE}/*.pkg.tar*",),
}


def find(word: str) -> SourcePackage:
    """Return the source package that `word` names. Raise BadInput if `word` names none."""
    path = Path(word)
    if path.is_file() and path.name.endswith(".dsc"):
        return SourcePackage("debian", str(path.resolve()))
    if path.is_file() and path.name.endswith(".src.rpm"):
        return SourcePackage("rpm", str(path.resolve()))
    if (path / "debian" / "rules").is_file():
        return SourcePackage("debian", str(path.resolve()))
    if (path / "PKGBUILD").is_file():
        return SourcePackage("arch", str(path.resolve()))
    what = "no such file or folder" if not path.exists() else "not a source package"
    hint = "use a .dsc, a .src.rpm, or a folder with debian/rules or a PKGBUILD; `ktrial kernel build` builds any tree"
    raise BadInput(what, file=word, hint=hint)


def check_packaging(found: SourcePackage) -> None:
    missing = [name for name in _PROGRAMS[found.packaging] if shutil.which(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise KtrialError(
            f"cannot build the package: {', '.join(missing)} {verb} not installed", hint=install_step(missing)
        )
    if found.packaging == "arch" and os.geteuid() == 0:
        raise Refused("cannot build the package: makepkg does not run as root", hint="build as an ordinary user")


class OwnPackaging:
    """Unpacks a source package into `out`, and returns the command that builds it there."""

    def __init__(self, found: SourcePackage, out: Path, jobs: int, *, anyway: bool) -> None:
        self.found = found
        self._path = Path(found.place)
        self.out = out.resolve()
        self._jobs = jobs
        self._anyway = anyway
        self._goes_on = self.source.exists()

    @property
    def source(self) -> Path:
        return self.out / SOURCE

    @property
    def launcher(self) -> str | None:
        """Always None, because the build finds a compiler cache through PATH (see `told`)."""
        return None

    def unpack(self, patches: Sequence[Patch]) -> tuple[AppliedPatch, ...]:
        """Unpack the sources, apply the patches, and return the patches. Keep sources that an earlier build left.

        Unpack nothing for an RPM package. Raise Refused if the earlier build had other patches.
        """
        if self.found.packaging == "rpm":
            return ()
        note = self.out / _NOTE
        if self._goes_on:
            there = _noted(note)
            if there is None or [one.sha256 for one in there] != [one.sha256 for one in patches]:
                raise Refused(
                    f"an earlier build applied other patches to {self.source}",
                    hint="build in another folder with -o",
                )
            return there
        part = self.out / f"{SOURCE}.part"
        shutil.rmtree(part, ignore_errors=True)
        self.out.mkdir(parents=True, exist_ok=True)
        if self._path.is_dir():
            shutil.copytree(self._path, part, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        else:
            argv = ["dpkg-source", "--no-check", "-x", str(self._path), str(part)]
            run(argv, self.environment(), None, f"unpacking {self._path.name}")
        applied = tuple(apply(patch, part) for patch in patches)
        note.write_bytes(msgspec.json.encode(applied))
        part.rename(self.source)
        return applied

    def check_needs(self) -> None:
        """Raise Refused if a Debian package lacks a build dependency; rpmbuild and makepkg do their own checks."""
        if self.found.packaging != "debian" or self._anyway:
            return
        done = subprocess.run(
            ["dpkg-checkbuilddeps"],
            cwd=self.source,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            _, _, needed = done.stderr.strip().rpartition(": ")
            raise Refused(
                f"build dependencies are not installed: {needed}",
                hint=f"run `apt-get build-dep {self._path}`, or add --anyway",
            )

    @property
    def sha256(self) -> str | None:
        if self._path.is_dir():
            return None
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def argv(self, *_: str) -> list[str]:
        if self.found.packaging == "rpm":
            options = ["--define", f"_topdir {self.out}/rpm", *(["--nodeps"] if self._anyway else [])]
            return ["rpmbuild", "--rebuild", *options, str(self._path)]
        if self.found.packaging == "arch":
            options = [*(["--noextract"] if self._goes_on else []), *(["--nodeps"] if self._anyway else [])]
            return ["env", "-C", str(self.source), "makepkg", "--force", *options]
        options = [*(["-nc"] if self._goes_on else []), *(["-d"] if self._anyway else [])]
        return ["env", "-C", str(self.source), "dpkg-buildpackage", "-b", "-uc", "-us", *options]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        return {**inherited, **self.told, **(more or {}), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    @property
    def told(self) -> dict[str, str]:
        """Variables for the packaging: the number of jobs, and a PATH that begins with the compiler cache, if any."""
        cached = next((f"/{folder}" for folder in _CACHED if Path("/", folder, "gcc").exists()), None)
        options = os.environ.get("DEB_BUILD_OPTIONS", "")
        variables = {
            "debian": {"DEB_BUILD_OPTIONS": f"{options} parallel={self._jobs}".strip()},
            "rpm": {"RPM_BUILD_NCPUS": str(self._jobs)},
            "arch": {"MAKEFLAGS": f"-j{self._jobs}"},
        }[self.found.packaging]
        return variables | ({} if cached is None else {"PATH": f"{cached}:{os.environ.get('PATH', os.defpath)}"})

    def left(self) -> list[Path]:
        """Return the packages in `out`, including packages of earlier builds."""
        return sorted(path for pattern in _LEFT[self.found.packaging] for path in self.out.glob(pattern))


def _noted(path: Path) -> tuple[AppliedPatch, ...] | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=tuple[AppliedPatch, ...])
    return None


def package_kernel(
    packs: OwnPackaging,
    patches: tuple[AppliedPatch, ...],
    build: KernelBuild,
    read: Callable[[Path], PackageFile],
    unix_ms: Callable[[], int],
) -> KernelPackaged:
    """Build the packages and return their record; `read` identifies the kernel in a package.

    Raise Refused if a build dependency is missing, and KtrialError if the build fails or writes no new package.
    """
    packs.check_needs()
    command = tuple(packs.argv())
    before = {path: path.stat().st_mtime_ns for path in packs.left()}
    cost = build.run(TARGET, 1)
    made = [path for path in packs.left() if before.get(path) != path.stat().st_mtime_ns]
    if not made:
        raise KtrialError(
            f"{' '.join(command)} succeeded but wrote no new package", hint=f"read {packs.out}/ktrial-{TARGET}.log"
        )
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
