# SPDX-License-Identifier: Apache-2.0
"""The confirmation of kernel arguments that weaken the machine's protection; `--yes` does not give it."""

from __future__ import annotations

import select
import sys
from collections.abc import Collection, Sequence

from ktrial.kit.errors import BadInput, Interrupted, Refused
from ktrial.tuning.lasting.model import Guarded

_TURN_S = 0.2


def confirm_guarded(guarded: Sequence[Guarded], confirmed: Collection[str], *, may_ask: bool) -> None:
    """Ask for each word that `confirmed` does not name. Raises Refused without a terminal."""
    foreign = sorted(set(confirmed) - {one.name for one in guarded})
    if foreign:
        needed = ", ".join(one.name for one in guarded) or "none"
        raise BadInput(f"--yes-security {foreign[0]}: not an argument that needs it", hint=f"needed here: {needed}")
    left = [one for one in guarded if one.name not in confirmed]
    if left and not may_ask:
        words = " ".join(f"--yes-security {one.name}" for one in left)
        raise Refused(
            f"cannot keep {left[0].word}: it weakens the protection of this machine: {left[0].price}",
            hint=f"if you accept that, add {words}",
        )
    for one in left:
        _must_type(one)


def _must_type(one: Guarded) -> None:
    sys.stderr.write(f"{one.word} weakens the protection of this machine: {one.price}\nType {one.name} to accept: ")
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], _TURN_S)[0]:
        pass
    if sys.stdin.readline().strip() != one.name:
        raise Interrupted("aborted; nothing was changed")
