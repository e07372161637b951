# SPDX-License-Identifier: Apache-2.0
"""Source packages of distributions, as small as they can be, built by the distributions' own real tools."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.buildable_tree import FAILURE, write_buildable
from tests.support.tree import Ran

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="its image is for x86-64")
RULES = """#!/usr/bin/make -f
clean:
	rm -f objects
build build-arch build-indep:
	@echo '  CC      init/main.o'
	echo "$(DEB_BUILD_OPTIONS)" >> objects
	if [ -f debian/broken ]; then cat failure >&2; exit 1; fi
binary: binary-arch
binary-indep:
binary-arch: build
	mkdir -p debian/linux-image-test/boot debian/linux-image-test/DEBIAN
	cp image debian/linux-image-test/boot/vmlinuz-6.12.7-test
	dpkg-gencontrol -plinux-image-test -Pdebian/linux-image-test
	dpkg-deb --root-owner-group -b debian/linux-image-test ..
"""
CONTROL = """Source: linux-test
Maintainer: Nobody <nobody@example.org>
Build-Depends: {needs}
Rules-Requires-Root: no

Package: linux-image-test
Architecture: amd64
Description: a kernel of a test
"""
CHANGELOG = "linux-test (6.12.7) unstable; urgency=low\n\n  * Made.\n\n -- Nobody <nobody@example.org>  {date}\n"
SPEC = """Name: kernel-test
Version: 6.12.7
Release: 1
Summary: a kernel of a test
License: none
Source0: image
%description
A kernel of a test.
%install
mkdir -p %{buildroot}/boot
cp %{SOURCE0} %{buildroot}/boot/vmlinuz-%{version}
echo "$RPM_BUILD_NCPUS" > %{buildroot}/boot/jobs
%files
/boot/*
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", "package", *argv], out, err), out.getvalue(), err.getvalue())


def write_debian(folder: Path, needs: str = "make") -> Path:
    """A kernel's tree with Debian's packaging in it."""
    tree = write_buildable(folder)
    packaging = {
        "control": CONTROL.format(needs=needs),
        "rules": RULES,
        "changelog": CHANGELOG.format(date="Tue, 14 Nov 2023 22:13:20 +0000"),
        "source/format": "3.0 (native)\n",
    }
    for name, text in packaging.items():
        (tree / "debian" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "debian" / name).write_text(text)
    (tree / "debian/rules").chmod(0o755)
    return tree


def write_patch(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(f"--- a/failure\n+++ b/failure\n@@ -1 +1,2 @@\n+# {name}\n {FAILURE}")
    return path


def test_a_source_package_is_unpacked_patched_and_built_as_debian_does(tmp_path: Path) -> None:
    tree, out, patch = write_debian(tmp_path / "linux-test"), tmp_path / "out", write_patch(tmp_path, "mine.patch")
    subprocess.run(["dpkg-source", "-b", tree.name], cwd=tmp_path, check=True, capture_output=True)
    dsc = tmp_path / "linux-test_6.12.7.dsc"
    ran = run(str(dsc), "-o", str(out), "--patch", str(patch), "--jobs", "3", "--json")
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    assert (made["schema"], made["packaging"], made["place"]) == ("ktrial.kernel-package/1", "debian", str(dsc))
    assert [one["name"] for one in made["patches"]] == ["mine.patch"]
    (package,) = made["packages"]
    assert (package["path"], package["identity"]["release"]) == (
        str(out / "linux-image-test_6.12.7_amd64.deb"),
        "6.12.7-test",
    )
    assert made["command"][-4:] == ["dpkg-buildpackage", "-b", "-uc", "-us"]
    assert made["cost"]["objects"] == 1
    assert (out / "source/objects").read_text() == "parallel=3\n"
    assert (out / "source/failure").read_text().startswith("# mine.patch\n")
    assert json.loads((out / "ktrial-package.json").read_text()) == made
    again = run(str(dsc), "-o", str(out), "--patch", str(patch))
    assert again.status == 0, again.err
    assert "kernel      6.12.7-test, " in again.out
    assert (out / "source/objects").read_text().count("parallel=") == 2, "gone on with, not begun anew"
    other = run(str(dsc), "-o", str(out))
    assert (other.status, "applied other patches" in other.err) == (4, True), other.err


def test_a_folder_is_copied_and_what_its_build_lacks_or_fails_of_is_told(tmp_path: Path) -> None:
    tree, out = write_debian(tmp_path / "linux", "make, no-such-package (>= 7)"), tmp_path / "out"
    before = sorted(tree.rglob("*"))
    ran = run(str(tree), "-o", str(out))
    assert (ran.status, "not installed: no-such-package (>= 7)" in ran.err) == (4, True), ran.err
    assert f"apt-get build-dep {tree}" in ran.err
    assert run(str(tree), "-o", str(out), "--anyway").status == 0
    (out / "source/debian/broken").touch()
    broken = run(str(tree), "-o", str(out), "--anyway")
    assert (broken.status, "the build failed: the headers of libelf are missing" in broken.err) == (1, True), broken.err
    assert f"log: {out}/ktrial-packages.log" in broken.err
    assert sorted(tree.rglob("*")) == before


def test_a_source_package_of_rpm_is_built_by_its_spec(tmp_path: Path) -> None:
    tree, top = write_buildable(tmp_path / "linux"), tmp_path / "top"
    (tmp_path / "kernel.spec").write_text(SPEC)
    argv = ["rpmbuild", "-bs", "--define", f"_topdir {top}", "--define", f"_sourcedir {tree}", "kernel.spec"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    source, out = top / "SRPMS/kernel-test-6.12.7-1.src.rpm", tmp_path / "out"
    ran = run(str(source), "-o", str(out), "--jobs", "3", "--json")
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    (package,) = made["packages"]
    assert package["path"] == str(out / "rpm/RPMS/x86_64/kernel-test-6.12.7-1.x86_64.rpm")
    shown = subprocess.run(["rpm", "-qlp", package["path"]], capture_output=True, text=True, check=True).stdout
    assert "/boot/vmlinuz-6.12.7" in shown.splitlines()
    assert made["environment"]["RPM_BUILD_NCPUS"] == "3"
    patched = run(str(source), "-o", str(out), "--patch", str(write_patch(tmp_path, "mine.patch")))
    assert (patched.status, "--patch supports Debian packaging only" in patched.err) == (2, True)


def test_what_has_no_packaging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, out = write_buildable(tmp_path / "linux"), str(tmp_path / "out")
    bare = run(str(tree), "-o", out)
    assert (bare.status, ": not a source package" in bare.err) == (2, True)
    assert "no such file or folder" in run(str(tmp_path / "nowhere.dsc"), "-o", out).err
    (tree / "PKGBUILD").write_text("pkgname=linux-test\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("makepkg", "pacman", "bsdtar"):
        (programs / name).write_text("#!/bin/sh\nexit 9\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    arch = run(str(tree), "-o", out)
    assert (arch.status, "does not run as root" in arch.err) == (4, True), arch.err
    assert not (tmp_path / "out").exists()
