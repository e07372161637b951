# SPDX-License-Identifier: Apache-2.0
"""Who writes a run: a process of this boot, and whether it is still there."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_writer() -> str:
    """`HOST BOOT PID START`: no other process was or will be that."""
    return f"{socket.gethostname()} {_boot_id()} {os.getpid()} {_start_ticks(os.getpid())}"


def is_gone(writer: str) -> bool:
    """Whether the process has ended for sure. Of another machine's nothing is known: it is taken to be alive."""
    parts = writer.split()
    if len(parts) != 4 or not parts[2].isdecimal():
        return True
    host, boot, process, start = parts
    if host != socket.gethostname():
        return False
    return boot != _boot_id() or start != str(_start_ticks(int(process)))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_ticks(process: int) -> int | None:
    """When the process began, in clock ticks since boot; None when there is none."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
