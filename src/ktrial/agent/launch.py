# SPDX-License-Identifier: Apache-2.0
"""A start as root that the launcher of a checkout did not make: that of an installed ktrial.

The agent does then what it does for the launcher: it makes sure that all is root's alone, gives root up where somebody
asked for it on their own behalf, and starts this command line anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ktrial.kit.errors import PrivilegeMissing, Refused
from ktrial.agent.checkout import checkout_folder
from ktrial.agent.binary import find_agent
from ktrial.agent.lent_root import LAUNCHED
from ktrial.agent.root import check_trusted, invoking_user


def launch_anew() -> None:
    """Become the same command by way of the agent, where it has not come that way; does not return then.

    Raises PrivilegeMissing for what is not root's alone.
    """
    user = invoking_user()
    if user is None and os.environ.pop(LAUNCHED, "") == "root":
        return
    if user is None and checkout_folder() is not None:
        return  # somebody started this very Python with a checkout's sources: there is a launcher for all else
    agent = find_agent()
    try:
        check_trusted(agent, 0)
    except Refused as refused:
        raise PrivilegeMissing(
            refused.message, hint="start ktrial without sudo: it asks for root itself, for what needs it"
        ) from None
    os.execv(agent, launch_command(agent, user, sys.orig_argv[1:]))


def launch_command(agent: Path, user: int | None, arguments: Sequence[str]) -> list[str]:
    """Return the command line of the agent that starts Python with these arguments, as `user` or as root."""
    places = [sys.executable, *(place for place in sys.path if place)]
    own = [word for place in places if Path(place).exists() for word in ("--own", str(Path(place).absolute()))]
    return [str(agent), "launch", *(["--user", str(user)] if user else []), *own, "--", sys.executable, *arguments]
