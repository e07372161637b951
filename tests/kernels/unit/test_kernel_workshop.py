# SPDX-License-Identifier: Apache-2.0
"""Kernels of arms that nobody used for long go when another one is built."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ktrial.cli.shared import arm_kernels
from ktrial.cli.shared.arm_kernels import KernelWorkshop
from ktrial.kernels.build.run_build import RoomMissing


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


def test_without_room_the_next_step_is_one_that_trials_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `kernel build` has -o, --jobs and its own --anyway."""

    def lacks_room(*_: object) -> NoReturn:
        raise RoomMissing("the build needs about 3 GiB more", hint="build elsewhere with -o, or add --anyway")

    planned = SimpleNamespace(folder=tmp_path / "built-new", known=True, ready=None, tools=())
    workshop = KernelWorkshop.__new__(KernelWorkshop)
    app: Any = SimpleNamespace(kernels=SimpleNamespace(built=SimpleNamespace(at=lambda _: None)))
    workshop._app = app
    workshop._launcher = None
    monkeypatch.setattr(workshop, "_of", lambda _: planned)
    monkeypatch.setattr(arm_kernels, "order_of", lambda *_, **__: None)
    monkeypatch.setattr(arm_kernels, "build_order", lacks_room)
    plan: Any = None
    with pytest.raises(RoomMissing) as caught:
        workshop.build(plan)
    assert str(caught.value.hint).startswith(
        "free some space or memory, set XDG_CACHE_HOME to a folder on a larger disk, or"
    )
