# SPDX-License-Identifier: Apache-2.0
"""Root sessions for a head that has given up root: `ktrial-agent lend`, which is still root, starts them.

The launcher gave this process one end of a socket. Each message on it is a JSON object, sent together with the
standard input and output of the session to start.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress

import msgspec

from ktrial.agent.transport import PipeTransport, Transport
from ktrial.kit.errors import AgentError

#: `ktrial-agent launch` sets this to the number of the socket, or to "root" if this process is still root.
LAUNCHED = "KTRIAL_LAUNCHED"


class LentRoot:
    """The client of `ktrial-agent lend`, which lives as long as this process."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def start(self, state: str | None = None) -> Transport:
        """Start a root session that keeps its journals in the folder `state`.

        Raise AgentError if the helper has ended.
        """
        theirs_in, to_agent = os.pipe()
        from_agent, theirs_out = os.pipe()
        try:
            socket.send_fds(self._end, [msgspec.json.encode({"state": state})], [theirs_in, theirs_out])
        except OSError as error:
            os.close(to_agent)
            os.close(from_agent)
            why = f"cannot start a root session: the helper that lends root has ended ({error.strerror})"
            raise AgentError("lost", why, hint="start ktrial again") from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return PipeTransport(to_agent, from_agent)


def lent_root() -> LentRoot | None:
    """Return the client of the helper that the launcher started; None if no launcher started this process.

    Child processes do not inherit the socket.
    """
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
    """Return the id of the user who created the socket pair."""
    form = "3i"
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    return int(struct.unpack(form, told)[1])
