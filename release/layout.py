# SPDX-License-Identifier: Apache-2.0
"""ktrial with everything that it imports in one folder: as an archive that runs anywhere, and as a Debian package."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from release import CannotRelease
from release.archives import write_zst
from release.wheels import unpack

MAINTAINER = "ktrial maintainers <maintainers@ktrial.invalid>"
#: The names of Debian's architectures.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Suite:
    """A Debian release and the Python that it has."""

    number: str
    python: str


SUITES = (Suite("12", "3.11"), Suite("13", "3.13"))


def lay_out(folder: Path, ours: Path, others: Mapping[str, Iterable[Path]]) -> None:
    """Fill a folder: ktrial in head/, the packages of each Python in lib/pythonX.Y/. `ktrial.__main__` finds them."""
    unpack(ours, folder / "head")
    shutil.rmtree(next((folder / "head").glob("ktrial-*.dist-info")))
    for python, wheels in others.items():
        for wheel in wheels:
            unpack(wheel, folder / "lib" / f"python{python}")


def write_portable(source: Path, tree: Path, version: str, architecture: str, dated: int, output: Path) -> Path:
    """Pack a laid out folder as an archive with a start script; it may be unpacked anywhere, also read-only."""
    _copy(source / "packaging/portable/ktrial", tree / "ktrial", runs=True)
    _copy(source / "docs/reference/ktrial.1", tree / "share/man/man1/ktrial.1")
    for name in ("LICENSE", "LICENSES-agent.txt", "README.md", "SECURITY.md", "CHANGELOG.md"):
        _copy(source / name, tree / name)
    name = f"ktrial-{version}-linux-{architecture}"
    archive = output / f"{name}.tar.zst"
    write_zst(tree, name, dated, archive)
    return archive


def write_deb(
    source: Path, tree: Path, version: str, architecture: str, suite: Suite, dated: int, output: Path
) -> Path:
    """Pack a folder that holds usr/lib/ktrial as a package for one Debian."""
    folder = source / "packaging/debian"
    documents = tree / "usr/share/doc/ktrial"
    full = f"{version.replace('rc', '~rc')}-1~deb{suite.number}u1"
    _copy(folder / "ktrial", tree / "usr/bin/ktrial", runs=True)
    _write(documents / "copyright", (folder / "copyright").read_text(encoding="utf-8"))
    _copy(source / "LICENSES-agent.txt", documents / "LICENSES-agent.txt")
    day = format_datetime(datetime.fromtimestamp(dated, tz=UTC))
    _write_gz(tree / "usr/share/man/man1/ktrial.1.gz", (source / "docs/reference/ktrial.1").read_bytes())
    _write_gz(documents / "changelog.gz", (source / "CHANGELOG.md").read_bytes())
    entry = f"ktrial ({full}) stable; urgency=medium\n\n  * Release {version}.\n\n -- {MAINTAINER}  {day}\n"
    _write_gz(documents / "changelog.Debian.gz", entry.encode())
    _write(tree / "usr/share/lintian/overrides/ktrial", (folder / "lintian-overrides").read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    major, minor = suite.python.split(".")
    control = (
        (folder / "control")
        .read_text(encoding="utf-8")
        .format(
            version=full,
            architecture=DEBIAN[architecture],
            size=(size + 1023) // 1024,
            maintainer=MAINTAINER,
            python=suite.python,
            next_python=f"{major}.{int(minor) + 1}",
        )
    )
    _write(tree / "DEBIAN/control", control)
    for name in ("postinst", "prerm"):
        _copy(folder / name, tree / "DEBIAN" / name, runs=True)
    _write(tree / "DEBIAN/md5sums", _md5sums(tree))
    for path in [tree, *tree.rglob("*")]:
        runs = path.is_dir() or bool(path.stat().st_mode & 0o111)
        path.chmod(0o755 if runs else 0o644)
    deb = output / f"ktrial_{full}_{DEBIAN[architecture]}.deb"
    _run_dpkg(["-Zxz", "-z1", "--root-owner-group", "--build", str(tree), str(deb)], dated)
    return deb


def _copy(source: Path, place: Path, *, runs: bool = False) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    place.chmod(0o755 if runs else 0o644)


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def _write_gz(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(content, mtime=0))


def _md5sums(tree: Path) -> str:
    files = sorted(path for path in (tree / "usr").rglob("*") if path.is_file() and not path.is_symlink())
    sums = (hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() for path in files)
    return "".join(f"{one}  {path.relative_to(tree).as_posix()}\n" for one, path in zip(sums, files, strict=True))


def _run_dpkg(words: Sequence[str], dated: int) -> None:
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(dated)}
    if subprocess.run(["dpkg-deb", *words], env=environment, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise CannotRelease("cannot build the Debian package: dpkg-deb's message is above", hint="mend what it names")
