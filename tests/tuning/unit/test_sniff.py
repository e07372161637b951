# SPDX-License-Identifier: Apache-2.0
"""Names decide first, then content."""

from __future__ import annotations

import pytest

from ktrial.tuning.origin.formats.sniff import read, sniff


@pytest.mark.parametrize(
    "name, text, wanted",
    [
        ("/etc/sysctl.d/99-x.conf", "", "sysctl.d"),
        ("sysctl.conf", "", "sysctl.d"),
        ("60-disk.rules", "", "udev"),
        ("/etc/tuned/mine/tuned.conf", "", "tuned"),
        ("zram-generator.conf", "", "zram-generator"),
        ("/etc/modprobe.d/x.conf", "", "modprobe.d"),
        ("/usr/lib/tmpfiles.d/x.conf", "", "tmpfiles.d"),
        ("/proc/cmdline", "", "command-line"),
        ("/etc/default/grub", "", "command-line"),
        ("tweak.sh", "", "shell"),
        ("README.md", "vm.swappiness = 1\n", "list"),
        ("-", "vm.swappiness = 1\n# why\nvm.page-cluster=0\n", "sysctl.d"),
        ("-", "sysctl -w vm.swappiness=1\n", "shell"),
        ("-", "quiet splash nohz_full=1-3\n", "command-line"),
        ("-", "I like vm.swappiness = 10 a lot and so should you.\n", "list"),
        ("-", "vm.swappiness: 60 --> 10\n", "list"),
    ],
)
def test_sniff(name: str, text: str, wanted: str) -> None:
    sniffed = sniff(name, text)
    assert (sniffed.format, bool(sniffed.reason)) == (wanted, True)


def test_the_format_may_be_said() -> None:
    reading, sniffed = read("a.b=1\n", "-", "command-line")
    assert (sniffed.format, sniffed.reason) == ("command-line", "from --format")
    assert [(item.kind, item.name) for item in reading.assignments] == [("boot", "a.b")]
