# SPDX-License-Identifier: Apache-2.0
"""Watermarks as computed, against this kernel: after each pair of settings /proc/zoneinfo says the same."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
RESERVE, SCALE = (Path("/proc/sys/vm") / name for name in ("min_free_kbytes", "watermark_scale_factor"))


def ktrial(state: Path, *argv: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    status = main(["--machine-state", str(state), *argv], out, err)
    assert status == 0, out.getvalue() + err.getvalue()
    return out.getvalue()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A journal of its own; whatever happens in the test, all is reverted at its end."""
    folder = tmp_path / "state"
    yield folder
    ktrial(folder, "recover")
    ktrial(folder, "revert", "--all", "--force")


def managed() -> list[str]:
    """The memory of each zone. That of a guest changes while its host takes or gives some."""
    return re.findall(r"managed +(\d+)", Path("/proc/zoneinfo").read_text())


def computed_and_shown(state: Path, *pair: str) -> tuple[Any, Any]:
    """What is said of a pair before it is applied, and what of the machine that has it; both of the same memory."""
    for _ in range(10):
        memory = managed()
        computed = json.loads(ktrial(state, "watermarks", "+".join(pair), "--json"))
        ktrial(state, "apply", *pair, "--yes")
        shown = json.loads(ktrial(state, "watermarks", "--json"))
        if managed() == memory:
            return computed, shown
        ktrial(state, "revert")
    raise AssertionError("the memory of this machine changes all the time")


def test_computed_before_is_shown_after(state: Path) -> None:
    before = (RESERVE.read_text(), SCALE.read_text())
    for reserve_kb, scale in ((20011, 1), (45000, 10), (100003, 125), (262144, 37), (131071, 999)):
        computed, shown = computed_and_shown(
            state, f"vm.min_free_kbytes={reserve_kb}", f"vm.watermark_scale_factor={scale}"
        )
        assert shown["agrees"] is True, shown["differs"]
        assert shown["columns"][0]["zones"] == computed["columns"][1]["zones"]
        assert shown["columns"][0]["settings"] == {
            "vm.min_free_kbytes": reserve_kb,
            "vm.watermark_scale_factor": scale,
        }
        ktrial(state, "revert")
        assert (RESERVE.read_text(), SCALE.read_text()) == before
