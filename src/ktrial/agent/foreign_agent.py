# SPDX-License-Identifier: Apache-2.0
"""The agent for guests of another architecture than this machine's: in a checkout it is built when it is needed."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from ktrial.kit.errors import KtrialError
from ktrial.agent.binary import AGENT_NAME, find_agent

#: What the agent is made of, in a checkout.
_SOURCES = ("agent/Cargo.toml", "agent/Cargo.lock", "agent/.cargo", "agent/src")
Build = Callable[[Path, str], bool]


def agent_for(architecture: str, package: Path | None = None, build: Build | None = None) -> Path:
    """Return the agent for a machine of this kind. Raises KtrialError if there is none and none can be built."""
    if architecture == platform.machine():
        return find_agent(package)
    folder = package or Path(__file__).resolve().parent.parent
    name = f"{AGENT_NAME}-{architecture}"
    installed = folder / "_bin" / name
    if folder.parent.name != "src":
        return _there(installed, architecture, f"copy it there from a checkout's .setup/bin/{name}")
    checkout = folder.parent.parent
    own = checkout / ".setup" / "bin" / name
    if not _is_current(own, checkout) and not (build or _build)(checkout, architecture):
        raise KtrialError(
            f"there is no agent for {architecture} that is as new as its sources, and it cannot be built here",
            hint=f"install what is named above, or put one there that was built elsewhere: {own}",
        )
    return _there(own, architecture, "start it again")


def _there(place: Path, architecture: str, hint: str) -> Path:
    if not (place.is_file() and os.access(place, os.X_OK)):
        raise KtrialError(f"guests of {architecture} need an agent of theirs; there is no {place}", hint=hint)
    return place


def _is_current(agent: Path, checkout: Path) -> bool:
    """Return whether it is there and nothing that it is made of is newer."""
    try:
        built_ns = agent.stat().st_mtime_ns
    except OSError:
        return False
    places = [checkout / name for name in _SOURCES]
    sources = [*places, *(path for place in places if place.is_dir() for path in place.rglob("*"))]
    return all(path.stat().st_mtime_ns <= built_ns for path in sources if path.exists())


def _build(checkout: Path, architecture: str) -> bool:
    """Return whether the set-up could build it; what it says goes to stderr."""
    script = checkout / "setup" / "agent.sh"
    command = ["/bin/sh", str(script), str(checkout), architecture]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False, cwd=checkout).returncode == 0
