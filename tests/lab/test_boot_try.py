# SPDX-License-Identifier: Apache-2.0
"""Boots that ktrial tries through real loaders: a good one is kept, and every bad one leads back by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.boot_guest import LOADERS, BootGuest, BootImages
from tests.support.debian_guest import CLONE

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(5400)]

WORD = "transparent_hugepage=never"
KTRIAL = f"{CLONE}/ktrial"
#: What an attempt must leave as it was.
FILES = "find /boot /etc/systemd /etc/default -type f -printf '%p %m %u %g %s ' -exec sha256sum {} ';' | sort"


@pytest.fixture(params=LOADERS)
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BootGuest]:
    with BootGuest(BootImages.make(request.param, tmp_path), tmp_path) as running:
        yield running


def succeed(guest: BootGuest, script: str) -> str:
    ran = guest.run(script)
    assert ran.status == 0, ran.err + ran.out
    return ran.out


def status(guest: BootGuest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeed(guest, f"{KTRIAL} boot status --json"))
    return found


def events(guest: BootGuest) -> list[str]:
    return [f"{one['event']} {one['entry'].removeprefix('ktrial-')}" for one in status(guest)["events"]]


def wait_for(guest: BootGuest, event: str) -> None:
    look = f"grep -q '\"{event}\"' /var/lib/ktrial/boots.jsonl"
    succeed(guest, f"for second in $(seq 300); do {look} && exit 0; sleep 1; done; exit 1")


def test_a_good_change_is_rehearsed_tried_and_undone(guest: BootGuest) -> None:
    before = succeed(guest, FILES)
    shown = succeed(guest, f"{KTRIAL} boot try {WORD}")
    assert "nothing" not in shown
    assert succeed(guest, FILES) == before, "without --yes nothing is written"
    guest.send(f"{KTRIAL} boot try {WORD} --yes > /root/said 2>&1")
    guest.wait_boot()
    guest.wait_boot()
    assert WORD in guest.command_line()
    wait_for(guest, "healthy")
    assert events(guest) == ["armed rehearsal", "rehearsed rehearsal", "armed trial", "started trial", "healthy trial"]
    guest.reboot()
    assert WORD not in guest.command_line()
    assert events(guest)[-1] == "left trial"
    succeed(guest, f"{KTRIAL} boot undo")
    assert succeed(guest, FILES) == before
