# SPDX-License-Identifier: Apache-2.0
"""`./check` names the stage that failed and stops there."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.fake_checkout import CHECKOUT


def copied(folder: Path, prepare: str) -> Path:
    """A checkout that holds `check`, with this in the place of the set-up."""
    shutil.copy2(CHECKOUT / "check", folder)
    shutil.copytree(CHECKOUT / "setup", folder / "setup")
    (folder / "setup/prepare.sh").write_text(prepare)
    (folder / "setup/debian-packages-check.txt").write_text("# none\n")
    return folder


def test_an_unknown_option_is_bad_usage(tmp_path: Path) -> None:
    asked = subprocess.run(
        [copied(tmp_path, "exit 1") / "check", "--fast"], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stderr) == (2, "usage: ./check [--quick | --full] [--lab] [--fix]\n")


def test_the_inner_ring_is_not_the_long_one(tmp_path: Path) -> None:
    check = copied(tmp_path, "exit 1") / "check"
    asked = subprocess.run([check, "--quick", "--lab"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (2, "./check: --quick leaves out what --full and --lab add\n")


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_the_first_failure_ends_it_and_is_named(tmp_path: Path, shell: str) -> None:
    check = copied(tmp_path, "echo cannot >&2\nexit 3\n") / "check"
    done = subprocess.run(
        [*shell.split(), check], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 1
    assert "cannot" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("=== set-up: FAILED with status 1 after ")
    assert done.stdout.count("===") == 2


def test_what_continuous_integration_runs_is_the_check() -> None:
    runner = CHECKOUT / ".ci/run"
    assert runner.stat().st_mode & 0o111
    assert runner.read_text().splitlines() == ["#!/bin/sh", "exec ./check"]
