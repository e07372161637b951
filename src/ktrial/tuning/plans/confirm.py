# SPDX-License-Identifier: Apache-2.0
"""What `apply` asks once the settings are in force, and what Ctrl-C and its like mean while the agent writes."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from ktrial.kit.errors import AgentError, Interrupted

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession


_TURN_S = 0.2


class Presses:
    """How often Ctrl-C was pressed, or another signal asked for the end; `number` is the last one's."""

    def __init__(self) -> None:
        self.count = 0
        self.number: int = signal.SIGINT


@contextlib.contextmanager
def held_back() -> Iterator[Presses]:
    """Count the first Ctrl-C instead of stopping at once: the agent finishes what it has begun. A second one stops."""
    presses = Presses()

    def note(number: int, frame: FrameType | None) -> None:
        presses.count += 1
        presses.number = number
        if presses.count > 1:
            raise KeyboardInterrupt(number)
        with contextlib.suppress(OSError):  # the terminal may be what has gone
            sys.stderr.write("\nktrial: waiting for the agent to finish\n")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {number: was for number, was in before.items() if number == signal.SIGINT or was != signal.SIG_IGN}
    for number in before:
        signal.signal(number, note)
    try:
        yield presses
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def must_agree(question: str) -> None:
    """Ask once; anything but yes ends the command.

    Waits in short turns: a Ctrl-C that comes just before a blocking read is held back by Python until a key is pressed.
    """
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], _TURN_S)[0]:
        pass
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Interrupted("aborted; nothing was changed")


def ask_to_keep(root: AgentSession, transaction: int, limit_s: float) -> int:
    """Ask until the lease ends; 0 when kept, 1 when put back. The lease holds whatever becomes of this process."""
    try:
        keep = _answer(limit_s)
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            sys.stderr.write("\n")
        put_back(root, transaction)
        raise
    if keep:
        root.request("confirm", transaction=transaction)
        sys.stderr.write("Kept. `ktrial revert` undoes them.\n")
        return 0
    sys.stderr.write("\nNot confirmed.\n")
    put_back(root, transaction)
    return 1


def _answer(limit_s: float) -> bool:
    """Return whether a person said yes in time. Without anybody to answer, the time passes."""
    end = time.monotonic() + limit_s
    ended = False
    while (left := end - time.monotonic()) > 0:
        sys.stderr.write(f"\rKeep these settings? [y/N] (put back in {left:.0f} s) ")
        sys.stderr.flush()
        if ended:
            time.sleep(min(1.0, left))
            continue
        ready, _, _ = select.select([sys.stdin], [], [], min(1.0, left))
        if not ready:
            continue
        line = sys.stdin.readline()
        if line:
            return line.strip().lower() in {"y", "yes"}
        ended = True
    return False


def put_back(root: AgentSession, transaction: int) -> None:
    """Revert one transaction and say so; one that its lease has ended already is fine."""
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import revert
    from ktrial.tuning.plans.transaction_text import revert_text

    try:
        reverted = revert(root, transaction)
    except AgentError as error:
        if error.kind == "not-found":
            sys.stderr.write(f"Transaction {transaction}: all was put back.\n")
            return
        if error.kind == "busy":
            sys.stderr.write(f"ktrial: {error.message}; the lease puts all back\n")
            return
        raise
    sys.stderr.write(revert_text([reverted], width=columns()))
