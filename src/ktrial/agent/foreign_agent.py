# SPDX-License-Identifier: Apache-2.0
"""The agent for guests and machines of another architecture; a checkout builds it on demand."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from ktrial.agent.binary import AGENT_NAME, find_agent
from ktrial.kit.errors import KtrialError

#: Sources of the agent in a checkout.
_SOURCES = ("agent/Cargo.toml", "agent/Cargo.lock", "agent/.cargo", "agent/src")
#: Agents whose name differs from what `uname -m` prints. A 32-bit shell on a 64-bit kernel prints armv8l.
_AGENTS = {"arm64": "aarch64", "armv7l": "armv7", "armv8l": "aarch64"}
Build = Callable[[Path, str], bool]


def agent_architecture(machine: str) -> str:
    """Return the architecture of the agent for a machine on which `uname -m` prints `machine`."""
    return _AGENTS.get(machine, machine)


def agent_for(architecture: str, package: Path | None = None, build: Build | None = None) -> Path:
    """Return the agent for `architecture`. Raise KtrialError if it does not exist and cannot be built."""
    if architecture == agent_architecture(platform.machine()):
        return find_agent(package)
    folder = package or Path(__file__).resolve().parent.parent
    name = f"{AGENT_NAME}-{architecture}"
    installed = folder / "_bin" / name
    if folder.parent.name != "src":
        return _there(installed, architecture, f"copy .setup/bin/{name} from a checkout to {installed}")
    checkout = folder.parent.parent
    own = checkout / ".setup" / "bin" / name
    if not _is_current(own, checkout) and not (build or _build)(checkout, architecture):
        raise KtrialError(
            f"cannot build the agent for {architecture} on this machine",
            hint=f"install what the messages above name, or copy an agent built elsewhere to {own}",
        )
    return _there(own, architecture, "run the command again")


def _there(place: Path, architecture: str, hint: str) -> Path:
    if not (place.is_file() and os.access(place, os.X_OK)):
        if place.exists():
            hint = f"run `chmod +x {place}`" if place.is_file() else f"remove {place}"
        raise KtrialError(f"cannot find the agent for {architecture}: {place} is missing or not executable", hint=hint)
    return place


def _is_current(agent: Path, checkout: Path) -> bool:
    try:
        built_ns = agent.stat().st_mtime_ns
    except OSError:
        return False
    places = [checkout / name for name in _SOURCES]
    sources = [*places, *(path for place in places if place.is_dir() for path in place.rglob("*"))]
    return all(path.stat().st_mtime_ns <= built_ns for path in sources if path.exists())


def _build(checkout: Path, architecture: str) -> bool:
    """Build the agent with the set-up script, whose output goes to stderr; return whether the script succeeded."""
    script = checkout / "setup" / "agent.sh"
    command = ["/bin/sh", str(script), str(checkout), architecture]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False, cwd=checkout).returncode == 0
