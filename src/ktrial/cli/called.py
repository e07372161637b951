# SPDX-License-Identifier: Apache-2.0
"""Commands in ktrial's own text, as the user called it: `./ktrial` in a checkout, `ktrial` where it is installed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ktrial.agent.checkout import checkout_folder

#: The launchers put here how they were called.
_CALLED = "KTRIAL_CALLED"
_FROM_A_CHECKOUT = re.compile(r"(?<![\w./-])\./ktrial(?![\w.-])")


def take_called() -> str | None:
    """Return how ktrial was called, and hide that from the commands that it starts; None where nothing says so."""
    called = os.environ.pop(_CALLED, None)
    if called and Path(called).name == "ktrial":
        return called
    return "ktrial" if checkout_folder() is None else None


def as_called(called: str, verbs: Iterable[str]) -> Callable[[str], str]:
    """Return a function that spells the commands of a text so that they can be pasted."""
    names = "|".join(re.escape(verb) for verb in verbs)
    installed = re.compile(rf"(?<![\w./-])ktrial(?= (?:(?:{names})(?![\w.:/-])|--[a-z]))")

    def spell(text: str) -> str:
        if "ktrial" not in text:
            return text
        return installed.sub(lambda _: called, _FROM_A_CHECKOUT.sub(lambda _: called, text))

    return spell
