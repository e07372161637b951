# SPDX-License-Identifier: Apache-2.0
"""Start an installed ktrial as root, as a checkout's launcher does.

The agent checks that only root can change the files involved. It gives up root if the command was started on behalf of
another user. It then starts the same command line again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ktrial.agent.binary import find_agent
from ktrial.agent.checkout import checkout_folder
from ktrial.agent.lent_root import LAUNCHED
from ktrial.agent.root import check_trusted, invoking_user
from ktrial.kit.errors import PrivilegeMissing, Refused


def launch_anew() -> None:
    """Start this command again through the agent, unless the agent started it or root started it from a checkout.

    Raise PrivilegeMissing if a user other than root could change the agent, or if the invoking user is unknown.
    """
    user = invoking_user()
    if user is None and os.environ.pop(LAUNCHED, "") == "root":
        return
    if user is None and checkout_folder() is not None:
        return  # Python was started directly on a checkout's sources; other starts go through the launcher
    agent = find_agent()
    try:
        check_trusted(agent, 0)
    except Refused as refused:
        raise PrivilegeMissing(
            refused.message, hint="start ktrial without sudo; ktrial asks for root when a step needs root"
        ) from None
    os.execv(agent, launch_command(agent, user, sys.orig_argv[1:]))


def launch_command(agent: Path, user: int | None, arguments: Sequence[str]) -> list[str]:
    """Return the agent's command line that starts Python with these arguments, as `user` or as root."""
    places = [sys.executable, *(place for place in sys.path if place)]
    own = [word for place in places if Path(place).exists() for word in ("--own", str(Path(place).absolute()))]
    return [str(agent), "launch", *(["--user", str(user)] if user else []), *own, "--", sys.executable, *arguments]
