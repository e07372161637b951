# SPDX-License-Identifier: Apache-2.0
"""Further forms of `ktrial demo` on the real machine: where /sys cannot be written, and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.demos import ARMS, SHORT, check_found, demo

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine"), pytest.mark.xdist_group("demo")]
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: As containers have it.
_READ_ONLY = """set -e
mount --bind /sys /sys && mount -o remount,bind,ro /sys
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys
exec "$@"
"""


def test_a_container_that_writes_no_setting(tmp_path: Path) -> None:
    before = HUGE.read_text()
    ran = demo(
        tmp_path, *SHORT, before=("unshare", "--mount", "--propagation", "private", "sh", "-c", _READ_ONLY, "sh")
    )
    assert ran.returncode == 0, ran.stderr
    check_found(ran.stdout)
    said = " ".join(ran.stdout.split())
    assert "huge_pages=always" in said
    assert "No system setting was changed" in said
    assert "mounted read-only" in said
    assert HUGE.read_text() == before


def test_events_for_programs(tmp_path: Path) -> None:
    """One object per line: visits, blocks, and at the end the verdicts; nothing else is on stdout."""
    page = tmp_path / "page.html"
    ran = demo(tmp_path, *SHORT, "--cap", "20", "--json", "-o", str(page), "--seed", "5")
    assert ran.returncode == 0, ran.stderr
    *events, last = [json.loads(line) for line in ran.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert set(kinds) >= {"visit-began", "visit", "block-ended", "trial-ended"}
    assert kinds[-1] == "trial-ended"
    told = last["demo"]
    assert (last["event"], told["schema"], told["interrupted"]) == ("demo", "ktrial.demo/1", False)
    found = {one["arm"]: one["verdict"] for one in told["found"]["arms"]}
    judged = [one for one in events[-1]["judgement"]["judged"] if one["role"] == "primary"]
    assert found == {one["arm"]: one["verdict"] for one in judged}
    assert list(found) == ARMS
    assert told["before"] == told["after"]
    assert str(HUGE) in told["before"]
    assert told["report"] == str(page)
    assert "<title>" in page.read_text(encoding="utf-8")
