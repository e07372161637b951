# SPDX-License-Identifier: Apache-2.0
"""Opens a kernel's sources: a folder, a git tree, an archive, or a Debian source package.

Unpacked and patched sources are in the cache, where nobody changes them. ktrial never writes to the user's own folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from ktrial.kernels.build.patch_files import FILES, families
from ktrial.kernels.build.patches import Patch, apply, check_names
from ktrial.kernels.images import debian_package
from ktrial.kernels.images.packages import DAMAGED, package_files, unreadable_package
from ktrial.kernels.source import KernelSource, PatchSet
from ktrial.kernels.uarch.x86_makefile import read_tree_version
from ktrial.kit.errors import BadInput, KtrialError, Refused
from ktrial.kit.formats.tool_output import with_hint
from ktrial.kit.units import show_bytes

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst")
_INNER = "usr/src/linux-source-"
_LIMIT_S = 1800.0
_CHUNK_BYTES = 1 << 20
#: The size of unpacked sources per byte of their archive.
_UNPACKED = 13
_SHOWN_CHANGES = 20
#: Traces of a build in the tree itself; they prevent builds in a separate folder.
_BUILT = (".config", "include/config", "include/generated/autoconf.h")
#: git with options that keep it from running programs that the repository configures.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")


class Opened(NamedTuple):
    """Sources to build from. `ours` is true if the files are in the cache, where nobody changes them."""

    source: KernelSource
    folder: Path
    ours: bool


class Sources:
    """Opens sources; `cache` holds what ktrial unpacked and patched."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def open(self, word: str) -> Opened:
        path = Path(word)
        if path.is_dir():
            return _folder(path)
        if not path.is_file():
            hint = "use a source folder, a tar archive, or Debian's linux-source package"
            raise BadInput("no such file or folder", file=word, hint=hint)
        with path.open("rb") as file:
            package = file.read(len(debian_package.MAGIC)) == debian_package.MAGIC
        if not package and not path.name.endswith(_ARCHIVES):
            raise BadInput(
                "neither a tar archive nor a Debian package",
                file=word,
                hint="use linux-X.Y.tar.xz, or a linux-source package",
            )
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        folder = self._unpacked(path, digest, package=package)
        source = KernelSource(
            kind="package" if package else "archive",
            place=str(path.resolve()),
            version=_version(folder),
            sha256=digest,
            families=_families(folder),
            epoch_s=_epoch(folder),
        )
        return Opened(source, folder, ours=True)

    def patched(self, opened: Opened, patches: Sequence[Patch]) -> Opened:
        """Return a copy of the sources with the patches applied; without patches, return the sources themselves.

        Unchanged sources with the same patches are copied only once.
        """
        if not patches:
            return opened
        identity = opened.source.sha256 or (opened.source.commit if not opened.source.changes else None)
        inputs = (identity or str(opened.folder), *(patch.sha256 for patch in patches))
        key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:24]
        place = self._cache / f"patched-{key}"
        with self._locked(key):
            noted = self._noted(place) if identity is not None else None
            if noted is None:
                noted = self._patch(opened, patches, place)
        return Opened(noted, place / "linux", ours=True)

    def _patch(self, opened: Opened, patches: Sequence[Patch], place: Path) -> KernelSource:
        for patch in patches:  # checks all patches before the whole tree is copied
            check_names(patch, opened.folder)
        part = place.with_name(f"{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            _copy(opened, part / "linux")
            applied = tuple(apply(patch, part / "linux") for patch in patches)
            found = _families(part / "linux")
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        source = msgspec.structs.replace(opened.source, patches=applied, families=found)
        (part / "source.json").write_bytes(msgspec.json.encode(source))
        part.rename(place)
        return source

    def _noted(self, place: Path) -> KernelSource | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode((place / "source.json").read_bytes(), type=KernelSource)
        return None

    def _unpacked(self, archive: Path, digest: str, *, package: bool) -> Path:
        place = self._cache / f"source-{digest[:24]}"
        with self._locked(digest[:24]):
            if not place.is_dir():
                part = self._cache / f"{place.name}.part"
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                try:
                    _check_room(part, archive.stat().st_size * _UNPACKED, f"unpacking {archive.name}")
                    inner = _inner(archive, part) if package else archive
                    _run(["tar", "-C", str(part), "--no-same-owner", "-xf", str(inner.resolve())])
                    if package:
                        inner.unlink()
                    _only_folder(part, archive).rename(part / "linux")
                    _version(part / "linux")
                    part.rename(place)
                except BaseException:
                    shutil.rmtree(part, ignore_errors=True)
                    raise
        return place / "linux"

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._cache / f"lock-{key}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _folder(path: Path) -> Opened:
    version = _version(path)
    left = next((name for name in _BUILT if (path / name).exists()), None)
    if left is not None:
        raise Refused(
            f"{path}: a kernel was built or configured inside this tree ({left} exists)",
            hint=f"run `make -C {path} mrproper`, which also removes .config",
        )
    if not (path / ".git").exists():
        source = KernelSource(kind="folder", place=str(path.resolve()), version=version)
    else:
        commit = _git(path, "rev-parse", "HEAD")
        changed = _git(path, "status", "--porcelain", "--untracked-files=no").splitlines()
        source = KernelSource(
            kind="git",
            place=str(path.resolve()),
            version=version,
            commit=commit,
            changes=tuple(line[3:] for line in changed[:_SHOWN_CHANGES]),
        )
    epoch_s = int(_git(path, "log", "-1", "--format=%ct")) if source.commit else _epoch(path)
    return Opened(
        msgspec.structs.replace(source, families=_families(path), epoch_s=epoch_s), path.resolve(), ours=False
    )


def _version(folder: Path) -> str:
    for name in ("Makefile", "Kconfig", "scripts/kconfig/merge_config.sh"):
        if not (folder / name).is_file():
            hint = "use the top folder of a kernel source tree"
            raise BadInput(f"not a kernel tree: {name} is missing", file=str(folder), hint=hint)
    with with_hint("use the top folder of a kernel source tree"):
        return read_tree_version((folder / "Makefile").read_bytes(), str(folder / "Makefile"))


def _families(folder: Path) -> tuple[PatchSet, ...]:
    texts = {}
    for name in FILES:
        with contextlib.suppress(OSError):
            texts[name] = (folder / name).read_text(encoding="utf-8", errors="replace")
    return families(texts)


def _epoch(folder: Path) -> int:
    return int((folder / "Makefile").stat().st_mtime)


def _inner(package: Path, into: Path) -> Path:
    try:
        with package.open("rb") as file:
            archive, inside = package_files(file, package)
            for entry in archive:
                name = entry.name.removeprefix("./")
                if name.startswith(_INNER) and name.endswith(_ARCHIVES) and (data := archive.extractfile(entry)):
                    inside.allow(entry.size)
                    place = into / "inner.tar"
                    with place.open("wb") as out:
                        shutil.copyfileobj(data, out, _CHUNK_BYTES)
                    return place
    except DAMAGED as error:
        raise unreadable_package(error, str(package)) from None
    hint = "use a linux-source package: a linux-image package holds a built kernel, not its sources"
    raise BadInput(f"no {_INNER}….tar in this package", file=str(package), hint=hint)


def _only_folder(part: Path, archive: Path) -> Path:
    found = list(part.iterdir())
    if len(found) != 1 or not found[0].is_dir() or found[0].is_symlink():
        raise BadInput(
            f"expected one top-level folder, got {len(found)} entries",
            file=str(archive),
            hint="use the tar archive of a kernel tree",
        )
    return found[0]


def _copy(opened: Opened, into: Path) -> None:
    """Copy sources: hard-link files of the cache, which ktrial never modifies in place, and copy the user's files."""
    if opened.ours:
        _run(["cp", "-al", str(opened.folder), str(into)])
        return
    size = _run(["du", "--summarize", "--block-size=1", "--exclude=.git", "--", str(opened.folder)]).split()[0]
    _check_room(into.parent, int(size), "copying the sources")
    into.mkdir()
    argv = ["tar", "-C", str(opened.folder), "--exclude=./.git", "-cf", "-", "."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as packing:
        _run(["tar", "-C", str(into), "-xf", "-"], packing.stdout)
    if packing.returncode != 0:
        raise KtrialError(
            f"cannot copy {opened.folder}: tar ended with status {packing.returncode}",
            hint="check the free space and the permissions of the tree",
        )


def _check_room(folder: Path, needed: int, what: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Refused(
            f"{what} needs about {show_bytes(needed)}, but {folder} has only {show_bytes(free)} free",
            hint="free some space, or set XDG_CACHE_HOME to a larger file system",
        )


def _git(folder: Path, *words: str) -> str:
    return _run([*_GIT, "-C", str(folder), *words]).decode(errors="replace").rstrip("\n")


def _run(argv: Sequence[str], stdin: IO[bytes] | int | None = subprocess.DEVNULL) -> bytes:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(argv, stdin=stdin, capture_output=True, check=False, timeout=_LIMIT_S, env=environment)
    except FileNotFoundError:
        raise KtrialError(f"cannot run {argv[0]}: it is not installed", hint=f"install {argv[0]}") from None
    except subprocess.TimeoutExpired:
        raise KtrialError(
            f"{' '.join(argv)} did not end within {_LIMIT_S / 60:g} min",
            hint="use a faster disk for the sources and for XDG_CACHE_HOME",
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise KtrialError(
            f"{' '.join(argv)} ended with status {done.returncode}: {said[-1] if said else 'no error output'}",
            hint="check that the sources are complete and that the disk has free space",
        )
    return done.stdout
