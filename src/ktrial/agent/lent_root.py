# SPDX-License-Identifier: Apache-2.0
"""Root sessions of a head that has given root up: `ktrial-agent lend`, still root, starts them for it.

The launcher gave this process one end of a socket. A message on it is a JSON object, with the standard input and output
of the session to start.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress

import msgspec

from ktrial.kit.errors import AgentError
from ktrial.agent.transport import PipeTransport, Transport

#: Set by `ktrial-agent launch`: the number of the socket, or another word where root was kept.
LAUNCHED = "KTRIAL_LAUNCHED"


class LentRoot:
    """The helper, as long as this process lives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def start(self, state: str | None = None) -> Transport:
        """Start a root session, with its journals in the folder `state`. Raises AgentError."""
        theirs_in, to_agent = os.pipe()
        from_agent, theirs_out = os.pipe()
        try:
            socket.send_fds(self._end, [msgspec.json.encode({"state": state})], [theirs_in, theirs_out])
        except OSError as error:
            os.close(to_agent)
            os.close(from_agent)
            why = f"the helper that lends root is gone: {error.strerror}"
            raise AgentError("lost", why, hint="start ktrial anew") from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return PipeTransport(to_agent, from_agent)


def lent_root() -> LentRoot | None:
    """Return the helper that the launcher left; nothing that this process starts gets hold of it."""
    told = os.environ.pop(LAUNCHED, "")
    if not told.isdecimal() or os.geteuid() == 0:
        return None
    number = int(told)
    with suppress(OSError, OverflowError):
        os.set_inheritable(number, False)
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            end = socket.socket(fileno=number)
            if _made_by(end) == 0:
                return LentRoot(end)
            end.detach()
    return None


def _made_by(end: socket.socket) -> int:
    """Return the user who made the pair that this end is of."""
    form = "3i"
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    return int(struct.unpack(form, told)[1])
