# SPDX-License-Identifier: Apache-2.0
"""Folders that stand for machines which ktrial can boot: Debian with GRUB, and with systemd-boot."""

from __future__ import annotations

from ktrial.cli.shared.drift_timer import program
from tests.support.tree import FakeRoot
from tests.tuning.unit.test_boot_entry import debian

ENVIRONMENT = "# GRUB Environment Block\n".ljust(1024, "#")
ENTRIES = "/boot/grub/custom.cfg"


def boot_with_grub(root: FakeRoot) -> FakeRoot:
    """Let the machine boot Debian with GRUB, from a file system that GRUB can write."""
    grounds = debian()
    for path in grounds.files:
        root.write(path, "text")
    root.write("/proc/cmdline", grounds.command_line)
    root.write("/proc/self/mounts", "/dev/sda2 / ext4 rw 0 0\n")
    root.write("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n")
    root.write("/proc/sys/kernel/osrelease", f"{grounds.release}\n")
    root.write("/proc/sys/kernel/arch", "x86_64\n")
    root.write("/boot/grub/grub.cfg", grounds.grub_text)
    root.write("/boot/grub/grubenv", ENVIRONMENT)
    root.write("/sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n")
    root.write("/etc/systemd/system/own.service", "[Unit]\n")
    root.write(program(), "")
    (root.folder / program().lstrip("/")).chmod(0o755)
    return root
