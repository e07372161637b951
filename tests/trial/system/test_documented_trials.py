# SPDX-License-Identifier: Apache-2.0
"""Trials that the documentation and the verbs' help show are looked over on this machine: `--dry-run` after each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.studies.system.test_blame import TWEAKS
from tests.support.documented import Documented, documented
from tests.support.terminal import KTRIAL

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
#: Verbs that would measure, and can look instead.
VERBS = {"ab", "try", "blame", "ladder", "tune"}
#: What makes a kernel, a guest or boots of the example's necessary.
ELSEWHERE = {"--boot", "--boots", "--kernel", "--tree", "--guest", "--host"}
LADDER = """name = "mine"
summary = "Two steps."

[[tier]]
name = "T0"
why = "As it is found."
profile = "distro"

[[tier]]
name = "T1"
why = "With the watermarks."
profile = "micro-stutter-watermarks"
"""


def examples() -> list[Documented]:
    return [
        one
        for one in documented()
        if one.whole and not one.mentioned and one.words[0] in VERBS and not ELSEWHERE & set(one.words)
    ]


def test_each_verb_has_examples() -> None:
    assert {one.words[0] for one in examples()} == VERBS


@pytest.mark.parametrize("one", examples(), ids=lambda one: " ".join(one.words)[:60])
def test_it_would_begin_here(one: Documented, tmp_path: Path) -> None:
    for name in ("my-test", "game", "old", "new", "prog"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "mine.toml").write_text(LADDER)
    (tmp_path / "tweaks.toml").write_text(TWEAKS)
    ends = one.words.index("--") if "--" in one.words else len(one.words)
    words = [*one.words[:ends], "--dry-run", *one.words[ends:]]
    ran = subprocess.run([*KTRIAL, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    if shutil.which("schbench") is None and "schbench" in " ".join(words):
        # Its name and its outcome are looked up before the program is.
        assert "schbench is not installed" in ran.stderr
        return
    assert ran.returncode == 0, f"{one.place}: {ran.stderr}"


@pytest.mark.parametrize(
    "words, told",
    [
        (["blame", "vm.swappiness=10", "vm.page-cluster=0", "--suite", "messaging"], "'messaging'"),
        (["ladder", "arashi", "--suite", "quick", "--primary", "agent-lock.event_rate"], "'agent-lock.event_rate'"),
    ],
)
def test_what_is_not_there_is_noticed(words: list[str], told: str, tmp_path: Path) -> None:
    command = [*KTRIAL, *words, "--dry-run"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 2
    assert f": {told}\n  next: did you mean" in ran.stderr
