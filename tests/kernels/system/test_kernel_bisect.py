# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel bisect` over a real git tree. A script stands in for QEMU: what it measures stands in the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guests.system.test_guest_failures import BEGIN, EMULATOR, frame
from tests.support import kernels

#: The last four digits of the kernel, and a little of what the command line is.
MEASURED = """for word; do
    case $last in -kernel) kernel=$word ;; -append) append=$word ;; esac
    last=$word
done
noise=$(printf '%s' "$append" | cksum)
value=$(($(tail -c 4 "$kernel") * 100 + ${{noise%% *}} % 97))
"""
END = "; ".join([frame("x", '{"status": 0}'), frame("z", "{}")])
OUTPUT = """printf 'o\\000\\000\\000\\006%06d' "$value" >> $line"""
COUNT, CULPRIT = 12, 8


def git(tree: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", tree, *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Twelve commits; from the ninth on the kernel is slower, the fifth does not build."""
    folder = tmp_path / "linux"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in range(COUNT):
        value = 2000 if number < CULPRIT else 2500
        (folder / "kernel").write_bytes(kernels.image() + b"%04d" % value)
        (folder / "number").write_text(str(number))
        (folder / "mk").write_text("exit 1\n" if number == 4 else "cp kernel out/image\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"change {number}")
    return folder


def bisect(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    emulator = programs / "qemu-system-x86_64"
    emulator.write_text(EMULATOR.format(what=MEASURED.format() + "\n".join([BEGIN, OUTPUT, END])))
    emulator.chmod(0o755)
    state = {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    return subprocess.run(
        [sys.executable, "-m", "ktrial", "kernel", "bisect", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **state, "PATH": f"{programs}:/usr/bin:/bin"},
        timeout=300,
    )


def state_of(tree: Path) -> tuple[str, str, list[str]]:
    """All that a person sees of it."""
    names = sorted(path.name for path in tree.iterdir())
    return git(tree, "status", "--porcelain"), git(tree, "rev-parse", "HEAD"), names


def build(tree: Path) -> list[str]:
    return ["--tree", str(tree), "--build", "mkdir -p out && sh mk", "--image", "out/image", "--outcome", "us"]


def test_the_commit_that_made_it_slower_is_named_and_the_tree_is_left_alone(tree: Path, tmp_path: Path) -> None:
    before = state_of(tree)
    done = bisect(tmp_path, f"HEAD~{COUNT - 1}", "HEAD", *build(tree), "--json", "--", "true")
    assert done.returncode == 0, done.stderr
    told: Any = json.loads(done.stdout)
    assert (told["schema"], told["why"]) == ("ktrial.kernel-bisect/1", "found"), told
    assert [commit["subject"] for commit in told["suspects"]] == [f"change {CULPRIT}"]
    assert told["verdict"] == "worse"
    assert f"{COUNT - 1} commits between" in done.stderr
    assert state_of(tree) == before
    assert not list((tmp_path / "XDG_STATE_HOME").rglob("bisect-*"))


def test_a_commit_that_does_not_build_is_left_out(tree: Path, tmp_path: Path) -> None:
    done = bisect(tmp_path, f"HEAD~{COUNT - 3}", f"HEAD~{COUNT - 8}", *build(tree), "--", "true")
    assert done.returncode == 4, done.stderr
    assert "do not differ in us after" in done.stderr
    done = bisect(tmp_path, f"HEAD~{COUNT - 1}", f"HEAD~{COUNT - 1 - CULPRIT}", *build(tree), "--", "true")
    assert done.returncode == 0, done.stderr
    assert "`mkdir -p out && sh mk` ended with status 1" in " ".join(done.stdout.split())
    assert "change 4 " in done.stdout
    assert "is the first bad commit" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["HEAD", "HEAD~3"], "GOOD is not an ancestor of BAD"),
        (["HEAD", "HEAD"], "no commits between GOOD and BAD"),
        (["nowhere", "HEAD"], "this tree has no commit 'nowhere'"),
        (["HEAD~1", "HEAD", "--memory", "much"], "--memory: "),
        (["HEAD~1", "HEAD", "-p", "x=1"], "cannot combine -p with PROGRAM"),
    ],
)
def test_what_cannot_be_bisected_is_said_before_anything_is_built(
    tree: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = bisect(tmp_path, *arguments, *build(tree), "--", "true")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_what_is_missing_is_asked_for(tree: Path, tmp_path: Path) -> None:
    ends = ["HEAD~1", "HEAD", "--tree", str(tree)]
    for arguments, said in (
        (["--outcome", "wakeup.p99_ns"], ", or --build COMMAND and --image PATH"),
        (["--outcome", "wakeup.p99_ns", "--build", "true"], "--build requires --image"),
        (
            ["--outcome", "wakeup", "--build", "true", "--image", "x"],
            "name an outcome of a load, such as wakeup.p99_ns",
        ),
        (["--outcome", "a.b", "--config", "/nowhere"], "/nowhere: no such file"),
    ):
        done = bisect(tmp_path, *ends, *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert (
        "not a usable git tree (not a git repository"
        in bisect(tmp_path, "a", "b", *build(tmp_path)[2:], "--tree", str(tmp_path), "--", "true").stderr
    )
