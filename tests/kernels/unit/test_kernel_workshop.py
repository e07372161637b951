# SPDX-License-Identifier: Apache-2.0
"""Kernels of arms that nobody used for long go when another one is built."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ktrial.cli.shared.arm_kernels import KernelWorkshop


def test_unused_kernels_are_removed_and_named_but_those_that_somebody_builds(tmp_path: Path) -> None:
    old, built_in = tmp_path / "built-old", tmp_path / "built-in"
    for folder in (old, built_in):
        folder.mkdir()
        (folder / "bzImage").touch()
    said: list[str] = []
    built = SimpleNamespace(unused=lambda _: [old, built_in])
    app: Any = SimpleNamespace(kernels=SimpleNamespace(built=built), say=said.append)
    workshop = KernelWorkshop.__new__(KernelWorkshop)
    workshop._app = app
    with (tmp_path / "lock-built-in").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        workshop._drop_unused(tmp_path / "built-new")
    assert (old.exists(), built_in.exists()) == (False, True)
    assert said == ["removed built-old, which was not used for 30 days"]
