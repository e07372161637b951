# SPDX-License-Identifier: Apache-2.0
"""The confirmation that `apply` asks for, and the handling of Ctrl-C while the agent writes."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ktrial.kit.errors import AgentError, Interrupted
from ktrial.machine.transactions import Applied, decode_reply

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession


_TURN_S = 0.2


class Presses:
    """Counts how often Ctrl-C or another request to end arrived; `number` is the last signal."""

    def __init__(self) -> None:
        self.count = 0
        self.number: int = signal.SIGINT


@contextlib.contextmanager
def held_back() -> Iterator[Presses]:
    """Delay the first Ctrl-C until the agent has finished; a second Ctrl-C interrupts at once."""
    presses = Presses()

    def note(number: int, frame: FrameType | None) -> None:
        presses.count += 1
        presses.number = number
        if presses.count > 1:
            raise KeyboardInterrupt(number)
        with contextlib.suppress(OSError):  # the terminal may have been closed
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


def apply_whole(root: AgentSession, apply: Callable[[], dict[str, Any]]) -> tuple[Applied, dict[str, Any]]:
    """Return `apply`'s reply, decoded and raw. After Ctrl-C, revert the transaction and raise KeyboardInterrupt."""
    with held_back() as presses:
        answer = apply()
    applied = decode_reply("apply", answer, Applied)
    if presses.count and applied.state == "applied":
        put_back(root, applied.transaction)
        raise KeyboardInterrupt(presses.number)
    return applied, answer


def must_agree(question: str, declined: str = "aborted; nothing was changed") -> None:
    """Ask once and raise Interrupted with `declined` for any answer but yes."""
    if _answer_to(f"{question} [y/N]: ").lower() not in {"y", "yes"}:
        raise Interrupted(declined)


def must_type(danger: str, word: str) -> None:
    """State a danger and raise Interrupted unless the user types the word."""
    if _answer_to(f"{danger}\nType {word} to accept: ") != word:
        raise Interrupted("aborted; nothing was changed")


def _answer_to(question: str) -> str:
    """Return the line that the user types.

    The waits are short, because Python would delay a Ctrl-C that comes just before a blocking read.
    """
    sys.stderr.write(question)
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], _TURN_S)[0]:
        pass
    return sys.stdin.readline().strip()


def ask_to_keep(root: AgentSession, transaction: int, limit_s: float) -> int:
    """Ask until the lease ends whether to keep the settings; return 0 if confirmed, 1 if reverted.

    The lease reverts the settings even if this process dies.
    """
    try:
        keep = _answer(limit_s)
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            sys.stderr.write("\n")
        put_back(root, transaction)
        raise
    if keep:
        root.request("confirm", transaction=transaction)
        sys.stderr.write("Confirmed. `ktrial revert` undoes the settings.\n")
        return 0
    sys.stderr.write("\nNot confirmed.\n")
    put_back(root, transaction)
    return 1


def _answer(limit_s: float) -> bool:
    """Return whether a person said yes in time. If nobody can answer, wait until the time is over."""
    end = time.monotonic() + limit_s
    ended = False
    while (left := end - time.monotonic()) > 0:
        sys.stderr.write(f"\rKeep these settings? [y/N] (reverting in {left:.0f} s) ")
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
    """Revert one transaction and report the result; the lease may have reverted it already, or may revert it later."""
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import revert
    from ktrial.tuning.plans.transaction_text import revert_text

    try:
        reverted = revert(root, transaction)
    except AgentError as error:
        if error.kind == "not-found":
            sys.stderr.write(f"Transaction {transaction}: all values were restored.\n")
            return
        if error.kind == "busy":
            sys.stderr.write(f"ktrial: {error.message}; the lease will restore all values\n")
            return
        raise
    sys.stderr.write(revert_text([reverted], width=columns()))
