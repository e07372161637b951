# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about being root: giving it up, and starting what keeps it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.host.privilege import RootHelper
    from ktrial.host.transport import Transport

#: Root sessions of one command: its own, and the one that records beside runs.
_SESSIONS = 2


def give_up_root(arguments: Sequence[str]) -> tuple[RootHelper, ...]:
    """Become the user who asked sudo, doas or pkexec for root; what is left may start agents as root."""
    if os.geteuid() != 0 or not {"SUDO_UID", "PKEXEC_UID", "DOAS_USER"} & set(os.environ):
        return ()
    from ktrial.host.find_agent import find_agent
    from ktrial.host.privilege import RootHelper, become, check_trusted, invoking_user

    user = invoking_user()
    if user is None:
        return ()
    agent = find_agent()
    check_trusted(agent, user)
    helpers = tuple(RootHelper(agent, arguments) for _ in range(_SESSIONS))
    become(user)
    return helpers


def connect_root(
    arguments: Sequence[str], purpose: str, may_ask: bool, say: Callable[[str], None], *, needs_right: bool
) -> Transport:
    """An agent with the role of root; a folder that stands for a machine needs no right for it."""
    from ktrial.host.find_agent import find_agent
    from ktrial.host.privilege import root_transport
    from ktrial.host.transport import ProcessTransport

    agent = find_agent()
    if not needs_right:
        return ProcessTransport([str(agent), *arguments])
    return root_transport(agent, arguments, purpose, may_ask=may_ask, say=say)
