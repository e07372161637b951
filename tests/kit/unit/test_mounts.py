# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.mounts import mount_options, read_only_mount

CONTAINER = """overlay / overlay rw,relatime 0 0
proc /proc proc rw,nosuid 0 0
proc /proc/sys proc ro,nosuid 0 0
sysfs /sys sysfs ro,nosuid 0 0
cgroup /sys/fs/cgroup cgroup2 rw 0 0
none /mnt/two\\040words tmpfs ro 0 0
"""


@pytest.mark.parametrize(
    "path, mount",
    [
        ("/proc/sys/vm/swappiness", "/proc/sys"),
        ("/proc/sysrq-trigger", None),
        ("/sys/block/sda/queue/scheduler", "/sys"),
        ("/sys/fs/cgroup/a/cpu.weight", None),
        ("/mnt/two words/x", "/mnt/two words"),
        ("/etc/x", None),
    ],
)
def test_the_nearest_mount_decides(path: str, mount: str | None) -> None:
    assert read_only_mount(path, mount_options(CONTAINER)) == mount


def test_the_last_mount_on_a_point_is_in_force() -> None:
    again = CONTAINER + "proc /proc/sys proc rw 0 0\n"
    assert read_only_mount("/proc/sys/vm/swappiness", mount_options(again)) is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert read_only_mount("/proc/sys", mount_options(text)) in {None, "/", "/proc", "/proc/sys", *mount_options(text)}
