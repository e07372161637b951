# SPDX-License-Identifier: Apache-2.0
"""ktrial's wheels and its source distribution, and the wheels of others that other packages carry."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from release import CannotRelease
from release.archives import repack_gz

#: Of the platforms that wheels name, those that Debian 12 has; the older ones are on all of them.
_PLATFORMS = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5", "2014", "1")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def build_wheel(source: Path, agents: Path, architecture: str, dated: int, output: Path) -> Path:
    """Build the wheel of one architecture from the agents in a folder, without a compiler."""
    before = set(output.glob("ktrial-*.whl"))
    # What setuptools left of another architecture's wheel would be in this one too.
    for left in ("build", "src/ktrial.egg-info"):
        subprocess.run(["rm", "--recursive", "--force", source / left], check=True)
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--quiet", "--disable-pip-version-check")
    _run(
        [sys.executable, "-I", "-m", "pip", "wheel", *options, "--wheel-dir", output, source],
        f"build the wheel for {architecture}",
        KTRIAL_AGENTS=str(agents),
        KTRIAL_ARCHITECTURE=architecture,
        SOURCE_DATE_EPOCH=str(dated),
    )
    (wheel,) = set(output.glob("ktrial-*.whl")) - before
    return wheel


def build_sdist(source: Path, agents: Path, work: Path, dated: int, output: Path) -> Path:
    """Build the source distribution; `agents` only keeps setup.py from looking for a compiler."""
    _run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--formats", "gztar", "--dist-dir", output],
        "build the source distribution",
        cwd=source,
        KTRIAL_AGENTS=str(agents),
        SOURCE_DATE_EPOCH=str(dated),
    )
    (packed,) = output.glob("ktrial-*.tar.gz")
    work.mkdir()
    repack_gz(packed, work, dated)
    return packed


def fetch_wheels(lock: Path, architecture: str, python: str, cache: Path) -> list[Path]:
    """Return the wheels that the lock file names for one Python; pip compares their sums with those listed there."""
    folder = cache / architecture / python
    platforms = [
        word
        for version in _PLATFORMS
        for word in ("--platform", f"manylinux{'_' if '_' in version else ''}{version}_{architecture}")
    ]
    abi = f"cp{python.replace('.', '')}"
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:")
    machine = ("--implementation", "cp", "--python-version", python, "--abi", abi, "--abi", "abi3", "--abi", "none")
    places = ("--dest", str(folder), "--requirement", str(lock))
    _run(
        [sys.executable, "-I", "-m", "pip", "download", *options, *machine, *platforms, *places],
        f"fetch the packages for Python {python} on {architecture}",
    )
    return sorted(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack what belongs into a folder of packages; programs, manuals and data of a wheel are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            top, _, rest = entry.filename.partition("/")
            name = entry.filename
            if top.endswith(".data"):
                kind, _, name = rest.partition("/")
                if kind not in {"purelib", "platlib"}:
                    continue
            place = folder / name
            if entry.is_dir() or not place.resolve().is_relative_to(folder.resolve()):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(archive.read(entry))
            # Libraries of wheels are often executable, and need not be.
            runs = place.suffix == "" and entry.external_attr >> 16 & 0o111
            place.chmod(0o755 if runs else 0o644)


def _run(command: list[str | Path], purpose: str, cwd: Path | None = None, **environment: str) -> None:
    if subprocess.run(command, cwd=cwd, env=os.environ | environment, check=False).returncode != 0:
        raise CannotRelease(f"cannot {purpose}: the messages are above", hint="mend what they name, and start again")
