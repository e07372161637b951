# SPDX-License-Identifier: Apache-2.0
"""Find the agent's binary at one of a few fixed paths; ktrial never searches PATH for it."""

from __future__ import annotations

import os
from pathlib import Path

from ktrial.kit.errors import KtrialError

AGENT_NAME = "ktrial-agent"


class AgentNotFound(KtrialError):
    """ktrial found no executable agent; the message lists the paths that it tried."""

    def __init__(self, places: tuple[Path, ...]) -> None:
        listed = "".join(f"\n  {place}" for place in places)
        checkout = places[0].parents[2] if len(places) > 1 else None
        hint = (
            "reinstall ktrial"
            if checkout is None
            else f"build the agent: sh {checkout}/setup/prepare.sh {checkout} agent"
        )
        super().__init__(f"cannot find an executable {AGENT_NAME}; looked in:{listed}", hint=hint)
        self.places = places


def find_agent(package: Path | None = None) -> Path:
    """Return the agent of the package in folder `package`, by default this package, or raise AgentNotFound."""
    places = agent_places(package or Path(__file__).resolve().parent.parent)
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place
    raise AgentNotFound(places)


def agent_places(package: Path) -> tuple[Path, ...]:
    """Return the paths to search for the agent of `package`, in order: the checkout's own build, the wheel's copy."""
    installed = package / "_bin" / AGENT_NAME
    if package.parent.name == "src":
        return (package.parent.parent / ".setup" / "bin" / AGENT_NAME, installed)
    return (installed,)
