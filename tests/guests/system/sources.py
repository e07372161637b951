# SPDX-License-Identifier: Apache-2.0
"""Kernel sources of Debian: downloaded and unpacked once, without what only drivers are made of."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

from ktrial.kernels.build.sources import Sources
from tests.guests.system.kernels import CACHE, other_suite, run

#: The cache of whole sources and of builds from them, which the long tests share.
BUILDS = CACHE / "builds"

#: What no configuration, patch or single object of these tests needs.
_LEFT_OUT = ("*/Documentation/*.rst", "*/drivers/*.[ch]", "*/sound/*.[ch]", "*/fs/*.c", "*/net/*.c", "*.dts", "*.dtsi")


def source_tree(version: str) -> Path:
    """Sources of Debian: of a version, or the newest of another suite. Nobody may write into them: make a copy."""
    CACHE.mkdir(parents=True, exist_ok=True)
    tree = CACHE / f"source-{version}"
    with (CACHE / f"source-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.is_dir():
            part = CACHE / f"source-{version}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            _download(version, part)
            (package,) = part.glob("*.deb")
            run(["dpkg-deb", "-x", str(package), str(part / "unpacked")])
            (archive,) = (part / "unpacked" / "usr" / "src").glob("linux-source-*.tar.xz")
            left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
            run(["tar", "-C", str(part), "--wildcards", *left_out, "-xf", str(archive)])
            (part / archive.name.removesuffix(".tar.xz")).rename(tree)
            shutil.rmtree(part)
    return tree


def _download(version: str, folder: Path) -> None:
    if version[0].isdecimal():
        run(["apt-get", "-o", "APT::Sandbox::User=root", "download", f"linux-source-{version}"], folder)
        return
    options = other_suite(version, folder / "apt")
    found = re.search(r"Depends: (linux-source-\S+)", run(["apt-cache", *options, "depends", "linux-source"]))
    assert found is not None, f"{version} has no linux-source"
    run(["apt-get", *options, "download", found[1]], folder)


def copy_of(version: str, folder: Path) -> Path:
    """A tree of a test's own. Files are links to the ones of the cache: replace them, do not write into them."""
    subprocess.run(["cp", "-al", source_tree(version), folder], check=True)
    return folder


def whole_archive() -> Path:
    """All of Debian's sources, packed."""
    path = Path("/usr/src/linux-source-6.12.tar.xz")
    assert path.is_file(), "linux-source-6.12 is not installed: ./check --full as root installs it"
    return path


def whole_tree() -> Path:
    """The same unpacked, where `ktrial kernel build` keeps it. Nobody may write into it."""
    return Sources(BUILDS / "ktrial" / "kernels").open(str(whole_archive())).folder
