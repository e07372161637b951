# SPDX-License-Identifier: Apache-2.0
"""All of `kernel build` around a make that is quick: what it is told, what is read back, what goes wrong."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.buildable_tree import FAILURE as FAILURE_TEXT
from tests.support.buildable_tree import write_buildable
from tests.support.https import Handler, make_certificate, served
from tests.support.tree import Ran

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its image is for x86-64"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("flex", "bison", "bc")), reason="no flex, bison, bc"
    ),
]
GUEST = ("--config", "tinyconfig", "--cache", "none")
FAILURE = FAILURE_TEXT.encode()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_buildable(tmp_path / "linux")


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


def test_built_recorded_listed_and_inspected(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("KCFLAGS", "-Ofast")
    out = tmp_path / "build"
    ran = run(
        "build", str(tree), *GUEST, "--set", "HZ_1000=y", "--set", "HZ_250=n", "--target", "haswell", "-o", str(out)
    )
    assert ran.status == 0, ran.err
    assert max(len(line) for line in ran.out.splitlines() if str(tmp_path) not in line) <= 80
    made = json.loads((out / "ktrial-build.json").read_text())
    assert (made["flags"]["march"], made["flags"]["optimise"]) == ("haswell", "2")
    assert made["make"]["KCFLAGS"] == "-march=haswell"
    assert (made["cost"]["objects"], made["cost"]["hits"], made["source"]["version"]) == (2, None, "6.14.0")
    assert [tool["minimum"] for tool in made["tools"]] == ["5.1.0", "2.25.0"]
    assert (out / "told").read_text().splitlines() == [
        "KBUILD_BUILD_HOST=ktrial",
        "KBUILD_BUILD_TIMESTAMP=Tue Nov 14 22:13:20 UTC 2023",
        "KBUILD_BUILD_USER=ktrial",
        "KBUILD_BUILD_VERSION=1",
        "SOURCE_DATE_EPOCH=1700000000",
    ]
    (listed,) = json.loads(run("list", "--json").out)["built"]
    assert listed == made
    assert "6.12.7-test" in run("list").out
    told = json.loads(run("inspect", str(out), "--json").out)
    assert (told["identity"], told["flags"]) == (made["identity"], made["flags"])
    assert "compiled with  -O2 -march=haswell (init/main.o)" in run("inspect", str(out)).out
    again = run("build", str(tree), "-o", str(tmp_path / "second"), *GUEST, "--optimise", "3")
    assert again.status == 0, again.err
    assert "-O3" in again.out
    assert f"{out}" in again.out.partition("earlier build ")[2]
    shutil.rmtree(out)
    assert len(json.loads(run("list", "--json").out)["built"]) == 1


def test_a_package_lies_in_the_folder(tree: Path, tmp_path: Path) -> None:
    if shutil.which("dpkg-buildpackage") is None or shutil.which("rsync") is None or shutil.which("cpio") is None:
        ran = run("build", str(tree), *GUEST, "--package", "deb", "-o", str(tmp_path / "build"))
        assert (ran.status, "apt-get install" in ran.err) == (1, True)
        return
    (tmp_path / "linux-image-old.deb").write_text("somebody's own")
    ran = run("build", str(tree), *GUEST, "--package", "deb", "-o", str(tmp_path / "build"), "--json")
    assert ran.status == 0, ran.err
    (made,) = json.loads(ran.out)["packages"]
    assert made["path"] == str(tmp_path / "build/packages/linux-image-6.12.7-test_1_amd64.deb")
    assert json.loads(run("inspect", made["path"], "--json").out)["identity"]["release"] == "6.12.7-test"
    assert (tmp_path / "linux-image-old.deb").exists()


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("--set", "BROKEN=y"), 1, "the build failed: the headers of libelf are missing"),
        (("--set", "STUBBORN=y"), 4, "STUBBORN=y (--set): Kconfig gave it another value"),
        (("--package", "pacman"), 4, "this tree has no make target pacman-pkg"),
        (("--cc", "tcc-9"), 2, "tcc-9: no such program"),
        (("--cc", "sh"), 2, "expected gcc or clang"),
        (("--cache", "sccache", "--distcc"), 2, "cannot combine --distcc with sccache"),
        (("--target", "x86-64-v4"), 2, "use x86-64-v3"),
    ],
)
def test_what_goes_wrong_is_said(words: tuple[str, ...], status: int, said: str, tree: Path, tmp_path: Path) -> None:
    ran = run("build", str(tree), *GUEST, *words, "-o", str(tmp_path / "build"))
    assert (ran.status, said in ran.err) == (status, True), ran.err
    assert json.loads(run("list", "--json").out)["built"] == []


def test_another_kernel_than_the_one_asked_for(tree: Path, tmp_path: Path) -> None:
    makefile = tree / "Makefile"
    makefile.write_text(makefile.read_text().replace(" $(KCFLAGS) ", " "))
    ran = run("build", str(tree), *GUEST, "--optimise", "3", "-o", str(tmp_path / "build"))
    assert (ran.status, "init/main.o was compiled with -O2, not -O3" in ran.err) == (1, True), ran.err


def test_a_compiler_that_is_too_old_for_the_tree(tree: Path, tmp_path: Path) -> None:
    script = tree / "scripts/min-tool-version.sh"
    script.write_text("#!/bin/sh\necho 99.1.0\n")
    ran = run("build", str(tree), *GUEST, "-o", str(tmp_path / "build"))
    assert (ran.status, "this tree needs 99.1.0 or newer" in ran.err) == (4, True), ran.err


def test_what_a_cache_with_a_server_gave_to_this_build(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, counts = tmp_path / "bin", tmp_path / "counts"
    programs.mkdir()
    counts.write_text("3 5")
    told = '{"stats":{"cache_hits":{"counts":{"C/C++":%s}},"cache_misses":{"counts":{"C/C++":%s}}}}'
    (programs / "sccache").write_text(
        f"#!/bin/sh\nread hits misses < {counts}\nprintf '{told}' $hits $misses\necho 13 6 > {counts}\n"
    )
    (programs / "sccache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    words = ("--config", "tinyconfig", "--cache", "sccache", "-o", str(tmp_path / "build"))
    ran = run("build", str(tree), *words, "--json")
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    assert (made["make"]["CC"], made["cost"]["hits"], made["cost"]["misses"]) == ("sccache gcc", 10, 1)


@pytest.mark.parametrize("verb", ["config", "build"])
def test_a_compiler_that_is_too_old_is_said_before_kconfig_is_asked(verb: str, tree: Path, tmp_path: Path) -> None:
    makefile = tree / "Makefile"
    makefile.write_text(makefile.read_text().replace("tinyconfig:\n", "tinyconfig:\n\t@echo too old >&2; exit 1\n"))
    (tree / "scripts/min-tool-version.sh").write_text("#!/bin/sh\necho 99.1.0\n")
    ran = run(verb, str(tree), "--config", "tinyconfig", "-o", str(tmp_path / "build"))
    assert (ran.status, "this tree needs 99.1.0 or newer" in ran.err) == (4, True), ran.err


def test_a_compiler_without_its_linker_is_said_with_the_package(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kconfig fails of it in its own words, which name no package."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("make", "flex", "bison"):
        (programs / name).symlink_to(shutil.which(name) or "")
    for name in ("clang-99", "clang++-99"):
        (programs / name).write_text("#!/bin/sh\necho clang version 99.0.0\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    ran = run("config", str(tree), "--config", "tinyconfig", "--cc", "clang-99", "-o", str(tmp_path / "build"))
    assert (ran.status, "configuring needs ld.lld-99, llvm-ar-99" in ran.err) == (1, True), ran.err
    assert "next: apt-get install lld-99 llvm-99" in ran.err


def test_no_disk_is_said_before(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr("ktrial.kernels.build.run_build.shutil.disk_usage", lambda _: usage)
    ran = run("build", str(tree), *GUEST, "-o", str(tmp_path / "build"))
    said = re.search(r"the build needs about \d+ MiB more, but .* has only 1 MiB free\n", ran.err)
    assert (ran.status, said is not None) == (4, True), ran.err
    assert not (tmp_path / "build/told").exists()


def test_a_patch_is_downloaded_and_must_be_the_one_that_was_looked_at(tree: Path, tmp_path: Path) -> None:
    patch = b"--- a/failure\n+++ b/failure\n@@ -1 +1,2 @@\n+# patched\n" + b" " + FAILURE

    class Upstream(Handler):
        files: Mapping[str, bytes] = {"0001-bore.patch": patch, "0001-bore.patch.gz": gzip.compress(patch, mtime=0)}

    def asked(address: str, name: str, digest: str) -> Ran:
        word = f"{address}/{name}#sha256={digest}"
        return run("config", str(tree), "--config", "tinyconfig", "--patch", word, "-o", str(tmp_path / "build"))

    with served(make_certificate(tmp_path), Upstream) as address:
        for name, data in Upstream.files.items():
            ran = asked(address, name, hashlib.sha256(data).hexdigest())
            assert (ran.status, f"applied {name}" in ran.err) == (0, True), ran.err
        wrong = asked(address, "0001-bore.patch", "0" * 64)
        assert (wrong.status, f", got {hashlib.sha256(patch).hexdigest()}" in wrong.err) == (2, True)
        gone = asked(address, "0002-bore.patch", "0" * 64)
        assert (gone.status, "0002-bore.patch: Not Found" in gone.err) == (1, True), gone.err
    assert not list((tmp_path / "XDG_STATE_HOME/ktrial/kernels").glob("patch-*"))
    assert (tree / "failure").read_bytes() == FAILURE


def test_no_room_is_said_before(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.kernels.build.run_build._available", lambda: 100 << 20)
    ran = run("build", str(tree), *GUEST, "-o", str(tmp_path / "build"))
    assert (ran.status, "of memory, but only 100 MiB is available" in ran.err) == (4, True), ran.err
    assert run("build", str(tree), *GUEST, "--anyway", "-o", str(tmp_path / "build")).status == 0


def test_broken_off_and_gone_on_with(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "build"
    argv = [sys.executable, "-m", "ktrial", "kernel", "build", str(tree), *GUEST, "--set", "SLOW=y", "-o", str(out)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, env=os.environ, text=True) as process:
        until = time.monotonic() + 60
        while not (out / "told").is_file() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert f"the objects stay in {out}; run the same command again to continue" in said
    shown = subprocess.run(["pgrep", "-f", f"O={out}"], capture_output=True, text=True, check=False).stdout
    assert shown == ""
    ran = run("build", str(tree), "-o", str(out), "--set", "SLOW=n", "--cache", "none")
    assert ran.status == 0, ran.err
