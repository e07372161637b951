# SPDX-License-Identifier: Apache-2.0
"""Guests boot from their own disks through real loaders, whose one-shot entries are used up by one boot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boot_guest import ESP, LOADERS, BootGuest, BootImages

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(3600)]

WORD = "ktrial.word=1"
GRUB_ENTRY = f"""
set -e
cat > /boot/grub/custom.cfg << END
menuentry second --id second {{
    search --no-floppy --fs-uuid --set=root $(findmnt -no UUID /)
    linux /boot/vmlinuz-$(uname -r) $(sed 's/BOOT_IMAGE=[^ ]* //' /proc/cmdline) {WORD}
    initrd /boot/initrd.img-$(uname -r)
}}
END
grub-reboot second
"""
ESP_ENTRY = f"""
set -e
cd {ESP}/loader/entries
sed 's/^options.*/& {WORD}/' *-$(uname -r).conf > second.conf
bootctl set-oneshot second.conf
"""
#: GRUB leaves the name of the variable.
ONE_SHOTS = "grub-editenv list | grep next_entry=.; ls /sys/firmware/efi/efivars | grep OneShot"


@pytest.fixture(params=LOADERS)
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BootGuest]:
    with BootGuest(BootImages.make(request.param, tmp_path), tmp_path) as running:
        yield running


def succeed(guest: BootGuest, script: str) -> str:
    ran = guest.run(script)
    assert ran.status == 0, ran.err
    return ran.out


def test_a_second_entry_boots_once_and_a_power_cut_leaves_what_was_synced(guest: BootGuest) -> None:
    assert WORD not in guest.command_line()
    succeed(guest, ESP_ENTRY if guest.loader == "systemd-boot" else GRUB_ENTRY)
    assert guest.run(ONE_SHOTS).out != ""
    guest.reboot()
    assert WORD in guest.command_line()
    assert guest.run(ONE_SHOTS).out == ""
    succeed(guest, "echo kept > /kept; sync /kept")
    guest.kill()
    guest.boot()
    assert WORD not in guest.command_line()
    assert succeed(guest, "cat /kept") == "kept\n"


@pytest.mark.parametrize("guest", ["grub-bios"], indirect=True)
def test_the_watchdog_resets_a_guest_that_does_not_feed_it(guest: BootGuest) -> None:
    assert succeed(guest, "cat /sys/class/watchdog/watchdog0/identity") == "i6300ESB timer\n"
    guest.send("exec sleep 10000 > /dev/watchdog")
    guest.wait_boot()
    guest.assert_running()
