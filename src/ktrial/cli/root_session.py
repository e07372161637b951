# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about being root: what was lent, and starting what is root."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.agent.lent_root import LentRoot
    from ktrial.agent.transport import Transport


def find_lent_root() -> LentRoot | None:
    """Return what the launcher left to start root sessions with, where it gave root up."""
    if "KTRIAL_LAUNCHED" not in os.environ:
        return None
    from ktrial.agent.lent_root import lent_root

    return lent_root()


def connect_root(
    arguments: Sequence[str], purpose: str, may_ask: bool, say: Callable[[str], None], *, needs_right: bool
) -> Transport:
    """Return an agent with the role of root; a folder that stands for a machine needs no right for it."""
    from ktrial.agent.binary import find_agent
    from ktrial.agent.root import root_transport
    from ktrial.agent.transport import ProcessTransport

    agent = find_agent()
    if not needs_right:
        return ProcessTransport([str(agent), *arguments])
    return root_transport(agent, arguments, purpose, may_ask=may_ask, say=say)
