# SPDX-License-Identifier: Apache-2.0
"""A configuration that is much smaller than that of the fragment `guest`, and builds in a few minutes."""

from __future__ import annotations

from pathlib import Path

#: The symbols that the agent needs to run as the first process and to send output.
SMALL = """
    64BIT PRINTK BUG TTY SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_INITRD RD_GZIP BINFMT_ELF FUTEX EPOLL SIGNALFD TIMERFD
    EVENTFD POSIX_TIMERS MULTIUSER HIGH_RES_TIMERS PROC_FS PROC_SYSCTL SYSFS SHMEM TMPFS DEVTMPFS IKCONFIG IKCONFIG_PROC
    NET UNIX FILE_LOCKING INOTIFY_USER
"""
#: Symbols that add debug information.
DEBUG = ("DEBUG_KERNEL", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT")


def write_fragment(path: Path, *more: str) -> Path:
    """Write the configuration as a file for `--fragment`, with more symbols."""
    path.write_text("".join(f"CONFIG_{symbol}=y\n" for symbol in (*SMALL.split(), *more)))
    return path
