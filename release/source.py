# SPDX-License-Identifier: Apache-2.0
"""The sources of a release: what is committed, if all places agree on its version."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

from release import CannotRelease
from release.archives import extract

#: The form of a version: a release, or a candidate of one.
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")


def check_version(root: Path, version: str) -> None:
    """Raise CannotRelease where a file names another version."""
    if not _VERSION.fullmatch(version):
        raise CannotRelease(f"{version!r} is no version", hint="name it as 1.2.3 or 1.2.3rc1")
    for place, found in versions(root).items():
        if found != version:
            raise CannotRelease(
                f"cannot release {version}: {place} says {found or 'nothing'}",
                hint=f"change {place}, commit, and run setup/release {version} again",
            )


def versions(root: Path) -> dict[str, str]:
    """Return the version that each file names which has one."""
    init = (root / "src/ktrial/__init__.py").read_text(encoding="utf-8")
    head = re.search(r'^__version__ = "(.*)"$', init, re.MULTILINE)
    changes = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    lock = tomllib.loads((root / "agent/Cargo.lock").read_text(encoding="utf-8"))
    agent = tomllib.loads((root / "agent/Cargo.toml").read_text(encoding="utf-8"))
    locked = [package["version"] for package in lock["package"] if package["name"] == "ktrial-agent"]
    return {
        "src/ktrial/__init__.py": head[1] if head else "",
        "CHANGELOG.md": changes[1] if changes else "",
        "agent/Cargo.toml": agent["package"]["version"],
        "agent/Cargo.lock": locked[0] if locked else "",
    }


def export(root: Path, folder: Path) -> int:
    """Unpack what is committed into `folder`; return the time of the commit, which dates all files of the release."""
    if git(root, "status", "--porcelain").strip():
        raise CannotRelease(
            "cannot release: some files are not committed",
            hint="see git status; commit or stash, or use a fresh clone",
        )
    packed = subprocess.run(["git", "-C", root, "archive", "HEAD"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        extract(archive, folder)
    return int(git(root, "log", "-1", "--format=%ct"))


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], check=True, capture_output=True, text=True).stdout
