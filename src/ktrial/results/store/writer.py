# SPDX-License-Identifier: Apache-2.0
"""Who writes a run: a process of this boot, and whether it is still there."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

#: systemd's number of a machine: many machines have the same host name.
MACHINE_ID = "/etc/machine-id"


def this_writer() -> str:
    """`HOST/MACHINE BOOT PID START`: no other process was or will be that."""
    return f"{socket.gethostname()}/{_machine()} {_boot_id()} {os.getpid()} {_start_ticks(os.getpid())}"


def is_gone(writer: str) -> bool:
    """Whether the process has ended for sure. Of another machine's nothing is known: it is taken to be alive."""
    parts = writer.split()
    if len(parts) != 4 or not parts[2].isdecimal():
        return True
    where, boot, process, start = parts
    host, _, machine = where.partition("/")
    if host != socket.gethostname() or ("/" in where and machine != _machine()):
        return False
    return boot != _boot_id() or start != str(_start_ticks(int(process)))


def _machine() -> str:
    """Made from the machine's number, which is confidential; empty where there is none."""
    try:
        number = Path(MACHINE_ID).read_bytes().strip()
    except OSError:
        return ""
    return hashlib.sha256(b"ktrial " + number).hexdigest()[:16] if number else ""


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
