# SPDX-License-Identifier: Apache-2.0
"""A program that fills all memory: its stalls are seen as often as the kernel counts them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.watching import watch

pytestmark = [pytest.mark.xdist_group("watch"), pytest.mark.timeout(600)]


def test_direct_reclaim_is_seen_as_often_as_the_kernel_counts_it(tmp_path: Path) -> None:
    hog = (
        "import os, time\n"
        "free = int(open('/proc/meminfo').read().split('MemFree:')[1].split()[0])\n"
        "name = os.path.join(os.environ['HOLES'], 'holes')\n"
        "file = open(name, 'wb'); file.truncate(64 << 30); file.close()\n"
        "reader = os.open(name, os.O_RDONLY)\n"
        "buffer = bytearray(1 << 22)\n"
        "left = free * 1024 + (6 << 30)\n"
        "if not os.fork():\n"
        "    for _ in range(40):\n"
        "        block = bytearray(300 << 20); time.sleep(0.05); del block\n"
        "    os._exit(0)\n"
        "while left > 0: left -= os.readv(reader, [buffer])\n"
        "os.wait(); os.unlink(name)\n"
    )
    recording = watch(tmp_path / "r", "--for", "120s", "--", sys.executable, "-c", hog, HOLES=str(tmp_path))
    checks = {one.what: one for one in recording.checks}
    check, pages = checks["direct-reclaim"], checks["direct-reclaim-pages"]
    assert check.agree, check
    assert pages.agree, pages
    stalls = [event for event in recording.events if event.kind == "direct-reclaim"]
    assert len(stalls) == pytest.approx(check.seen, abs=3)
    assert sum(stall.amount or 0.0 for stall in stalls) == pytest.approx(pages.seen, abs=3 * 4096)
    assert any(event.kind == "kswapd" for event in recording.events) or not check.counted
    assert sum(event.duration_s or 0.0 for event in stalls) > 0 or not check.counted
