# SPDX-License-Identifier: Apache-2.0
"""Which kernels of arms nobody uses any more."""

from __future__ import annotations

import os
from pathlib import Path

from ktrial.kernels.build.built_kernels import RECORD, UNUSED_DAYS, BuiltKernels

DAY_S = 24 * 3600
NOW_S = 1_600_000_000


def folder(parent: Path, name: str, days_ago: float, *, record: bool = True) -> Path:
    """One that was used so many days ago."""
    made = parent / name
    made.mkdir()
    (made / RECORD if record else made / "vmlinux.o").touch()
    for path in (*made.iterdir(), made):
        os.utime(path, (NOW_S - days_ago * DAY_S,) * 2)
    return made


def test_those_that_nobody_used_for_long_are_named_and_nothing_else(tmp_path: Path) -> None:
    used = folder(tmp_path, "built-used", 0)
    old = folder(tmp_path, "built-old", UNUSED_DAYS + 1)
    broken = folder(tmp_path, "built-broken-off", UNUSED_DAYS + 1, record=False)
    folder(tmp_path, "built-young", UNUSED_DAYS - 1)
    folder(tmp_path, "source-of-6.12", 400)
    (tmp_path / "built-no-folder").touch()
    os.utime(tmp_path / "built-no-folder", (0, 0))
    assert BuiltKernels.unused(used) == [broken, old]
    os.utime(old, (NOW_S, NOW_S))
    assert BuiltKernels.unused(used) == [broken, old]
    BuiltKernels.use(old)
    assert BuiltKernels.unused(used)[:1] == [broken]
    assert old not in BuiltKernels.unused(used)
    BuiltKernels.use(tmp_path / "built-gone")
