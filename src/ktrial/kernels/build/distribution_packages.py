# SPDX-License-Identifier: Apache-2.0
"""A distribution's source package, built with its own packaging: debian/rules, a spec of RPM, a PKGBUILD."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ktrial.kernels.build.make import NOT_INHERITED, run
from ktrial.kernels.build.patches import Patch, apply
from ktrial.kernels.build.toolchain import PACKAGES
from ktrial.kernels.kernel_package import Packaging, SourcePackage
from ktrial.kernels.source import AppliedPatch
from ktrial.kit.errors import BadInput, KtrialError, Refused

SOURCE = "source"
_NOTE = f"{SOURCE}.json"
#: Folders of links to ccache that are called as compilers are.
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
    """Return what a word names. Raises BadInput if no packaging is known by its files."""
    path = Path(word)
    if path.is_file() and path.name.endswith(".dsc"):
        return SourcePackage("debian", str(path.resolve()))
    if path.is_file() and path.name.endswith(".src.rpm"):
        return SourcePackage("rpm", str(path.resolve()))
    if (path / "debian" / "rules").is_file():
        return SourcePackage("debian", str(path.resolve()))
    if (path / "PKGBUILD").is_file():
        return SourcePackage("arch", str(path.resolve()))
    what = "there is no such file or folder" if not path.exists() else "has no packaging of its own"
    hint = "give a .dsc, a .src.rpm, or a folder with debian/rules or a PKGBUILD; `ktrial kernel build` builds any tree"
    raise BadInput(what, file=word, hint=hint)


def check_packaging(found: SourcePackage) -> None:
    """Raise where it cannot be built here at all."""
    missing = [name for name in _PROGRAMS[found.packaging] if shutil.which(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES.get(name, "dpkg-dev") for name in missing))
        raise KtrialError(f"building it needs {', '.join(missing)}, not here", hint=f"apt-get install {packages}")
    if found.packaging == "arch" and os.geteuid() == 0:
        raise Refused("makepkg, which builds it, does not run as root", hint="build as an ordinary user")


class OwnPackaging:
    """Unpacks it in `out`, and gives the command that builds it there."""

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
        """A cache is called by the names of compilers here."""
        return None

    def unpack(self, patches: Sequence[Patch]) -> tuple[AppliedPatch, ...]:
        """Bring the sources here with the patches on them, unless an earlier build did, which is gone on with then.

        Raises Refused if that one had other patches.
        """
        if self.found.packaging == "rpm":
            return ()
        note = self.out / _NOTE
        if self._goes_on:
            there = _noted(note)
            if there is None or [one.sha256 for one in there] != [one.sha256 for one in patches]:
                raise Refused(
                    f"what lies in {self.source} was unpacked with other patches", hint="build in another folder"
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
        """Raise Refused if a package that the build needs is not installed; RPM and Arch look themselves."""
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
                f"the build needs packages that are not installed: {needed}",
                hint=f"apt-get build-dep {self._path}, or go on with --anyway",
            )

    @property
    def sha256(self) -> str | None:
        if self._path.is_dir():
            return None
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def argv(self, *_: str) -> list[str]:
        if self.found.packaging == "rpm":
            told = ["--define", f"_topdir {self.out}/rpm", *(["--nodeps"] if self._anyway else [])]
            return ["rpmbuild", "--rebuild", *told, str(self._path)]
        if self.found.packaging == "arch":
            told = [*(["--noextract"] if self._goes_on else []), *(["--nodeps"] if self._anyway else [])]
            return ["env", "-C", str(self.source), "makepkg", "--force", *told]
        told = [*(["-nc"] if self._goes_on else []), *(["-d"] if self._anyway else [])]
        return ["env", "-C", str(self.source), "dpkg-buildpackage", "-b", "-uc", "-us", *told]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        return {**inherited, **self.told, **(more or {}), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    @property
    def told(self) -> dict[str, str]:
        """What the packaging is told beside its own: how many compilers at once, and a cache where there is one."""
        cached = next((f"/{folder}" for folder in _CACHED if Path("/", folder, "gcc").exists()), None)
        options = os.environ.get("DEB_BUILD_OPTIONS", "")
        told = {
            "debian": {"DEB_BUILD_OPTIONS": f"{options} parallel={self._jobs}".strip()},
            "rpm": {"RPM_BUILD_NCPUS": str(self._jobs)},
            "arch": {"MAKEFLAGS": f"-j{self._jobs}"},
        }[self.found.packaging]
        return told | ({} if cached is None else {"PATH": f"{cached}:{os.environ.get('PATH', os.defpath)}"})

    def left(self) -> list[Path]:
        """Return the packages that lie where the packaging puts them."""
        return sorted(path for pattern in _LEFT[self.found.packaging] for path in self.out.glob(pattern))


def _noted(path: Path) -> tuple[AppliedPatch, ...] | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=tuple[AppliedPatch, ...])
    return None
