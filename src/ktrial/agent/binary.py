# SPDX-License-Identifier: Apache-2.0
"""Finds the agent's binary: a fixed list of places, never a search through PATH."""

from __future__ import annotations

import os
from pathlib import Path

from ktrial.kit.errors import KtrialError

AGENT_NAME = "ktrial-agent"


class AgentNotFound(KtrialError):
    """No agent in any of the places that are looked at; the message lists them all."""

    def __init__(self, places: tuple[Path, ...]) -> None:
        listed = "".join(f"\n  {place}" for place in places)
        super().__init__(
            f"no executable {AGENT_NAME} in any of the places that ktrial looks at:{listed}",
            hint="in a checkout run ./ktrial once, it builds the agent; an installed ktrial must be installed again",
        )
        self.places = places


def find_agent(package: Path | None = None) -> Path:
    """Return the agent that belongs to the package in the folder `package` (by default the running one)."""
    places = agent_places(package or Path(__file__).resolve().parent.parent)
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place
    raise AgentNotFound(places)


def agent_places(package: Path) -> tuple[Path, ...]:
    """Where the agent of the package in this folder may be, in order: the checkout's own build, the wheel's copy."""
    installed = package / "_bin" / AGENT_NAME
    if package.parent.name == "src":
        return (package.parent.parent / ".setup" / "bin" / AGENT_NAME, installed)
    return (installed,)
