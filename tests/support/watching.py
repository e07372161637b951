# SPDX-License-Identifier: Apache-2.0
"""`ktrial watch` on this machine, and what it has recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ktrial.agent.binary import find_agent
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import Recording


def knows_threads() -> bool:
    """Whether the kernel's numbers of threads are those of this PID namespace: not in most containers."""
    return str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"


def instances() -> list[str]:
    """Of agents of this checkout in tracefs, and of agents that have ended; others may watch at the same time.

    It is seen through a mount that ends with the command.
    """
    listed = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tracefs t /sys/kernel/tracing; ls /sys/kernel/tracing/instances"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split() if name.startswith("ktrial-") and _is_ours(name)]


def _is_ours(instance: str) -> bool:
    pid, _, space = instance.split("-")[1:4]
    if f"pid:[{space}]" != str(Path("/proc/self/ns/pid").readlink()):
        # Agents of another container cannot be seen from here.
        return False
    try:
        program = str(Path(f"/proc/{pid}/exe").readlink())
    except FileNotFoundError:
        return True
    return program == str(find_agent())


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `ktrial watch`."""
    return subprocess.run(
        [sys.executable, "-m", "ktrial", "watch", "-o", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **environment},
        check=False,
    )


def watch(folder: Path, *words: str, **environment: str) -> Recording:
    """Run `ktrial watch` to its end: what it has recorded."""
    done = run(folder, *words, **environment)
    assert done.returncode == 0, done.stderr
    return recorded(folder)


def recorded(folder: Path) -> Recording:
    """What was recorded."""
    return read_recording((folder / "recording.ktr").read_bytes(), "recording")
