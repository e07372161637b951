# SPDX-License-Identifier: Apache-2.0
"""Boots of another machine over ssh: through GRUB, a change is rehearsed, tried, made permanent and removed again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.boot_guest import BootImages
from tests.support.ssh_guests import SshBootGuest, SshUser

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(5400)]

WORD = "transparent_hugepage=never"
#: Which a kept argument may change, and its removal must restore.
FILES = "find /boot /etc -xdev -type f -exec sha256sum {} + | sort"


def test_a_change_is_tried_kept_and_undone_from_here(tmp_path: Path) -> None:
    user = SshUser(tmp_path)
    with SshBootGuest(BootImages.make("grub-bios", tmp_path), tmp_path) as guest:
        user.let_in("far", guest)
        before = guest.run(FILES).out
        shown = user.ktrial("far", "boot", "try", WORD)
        assert WORD in shown
        assert guest.run(FILES).out == before, "without --yes nothing is written"
        user.ktrial("far", "boot", "try", WORD, "--yes")
        guest.wait_boot()
        guest.wait_boot()
        assert WORD in guest.command_line()
        user.let_in("far", guest)
        wait_until_healthy(user)
        user.ktrial("far", "boot", "keep", "--yes")
        guest.reboot()
        user.let_in("far", guest)
        assert WORD in guest.command_line()
        assert user.told("far", "boot", "status")["entries"] == []
        user.ktrial("far", "keep", "--undo", "--yes")
        guest.reboot()
        user.let_in("far", guest)
        assert WORD not in guest.command_line()
        assert {one["state"] for one in user.told("far", "status")["transactions"]} == {"reverted"}
        assert changed(before, guest.run(FILES).out) == set()


def wait_until_healthy(user: SshUser) -> None:
    """Wait until the agent there has judged the trial boot."""
    events = list[str]()
    deadline = time.monotonic() + 600
    while "healthy" not in events:
        assert time.monotonic() < deadline, events
        time.sleep(5)
        events = [one["event"] for one in user.told("far", "boot", "status")["events"]]
    assert events == ["armed", "rehearsed", "armed", "started", "healthy"]


def changed(before: str, after: str) -> set[str]:
    """Return the files that differ; the environment of GRUB changes with each boot."""
    differ = set(before.splitlines()) ^ set(after.splitlines())
    return {line.split(maxsplit=1)[1] for line in differ} - {"/boot/grub/grubenv"}
