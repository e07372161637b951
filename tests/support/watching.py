# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial watch` on this machine, and reads its recordings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ktrial.agent.binary import find_agent
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import Recording


def knows_threads() -> bool:
    """Return whether the kernel's thread ids are those of this PID namespace, which is rare in containers."""
    return str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"


def instances() -> list[str]:
    """Return the tracefs instances of agents of this checkout, and of agents that have ended.

    Other agents may watch at the same time. The mount that shows the instances ends with the command.
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
    """Run `ktrial watch` to its end, and return the recording."""
    done = run(folder, *words, **environment)
    assert done.returncode == 0, done.stderr
    return recorded(folder)


def recorded(folder: Path) -> Recording:
    """Return the recording in a folder."""
    return read_recording((folder / "recording.ktr").read_bytes(), "recording")
