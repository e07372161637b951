# SPDX-License-Identifier: Apache-2.0
"""Commands in ktrial's own text, spelled so that the user can paste them.

They begin as the user called ktrial (`./ktrial` in a checkout, `ktrial` where it is installed), and name the host.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from ktrial.agent.checkout import checkout_folder

#: The variable in which the launchers store how ktrial was called.
_CALLED = "KTRIAL_CALLED"
#: Commands on which --host has no effect: they read files, the catalog or stored results, or work on this machine only.
_OF_NO_HOST = frozenset(
    (
        "bundle",
        "claim",
        "compare",
        "completion",
        "demo",
        "export",
        "export-runs",
        "fleet",
        "history",
        "import",
        "install-recovery",
        "kernel",
        "knobs",
        "man",
        "profile",
        "profiles",
        "publish",
        "recheck",
        "reparse",
        "report",
        "runs",
        "show",
        "tools",
        "uninstall",
        "with",
    )
)
_OF_NO_HOST_IN = {"trial": ("list", "recheck", "report", "show")}
_FROM_A_CHECKOUT = re.compile(r"(?<![\w./-])\./ktrial(?![\w.-])")


def take_called() -> str | None:
    """Return how ktrial was called, or None if unknown.

    Remove the environment variable with the answer, because it must not reach the commands that ktrial starts.
    """
    called = os.environ.pop(_CALLED, None)
    if called and Path(called).name == "ktrial":
        return called
    return "ktrial" if checkout_folder() is None else None


def as_called(called: str, verbs: Iterable[str]) -> Callable[[str], str]:
    """Return a function that respells the commands in a text so that they can be pasted."""
    names = "|".join(re.escape(verb) for verb in verbs)
    installed = re.compile(rf"(?<![\w./-])ktrial(?= (?:(?:{names})(?![\w.:/-])|--[a-z]))")

    def spell(text: str) -> str:
        if "ktrial" not in text:
            return text
        return installed.sub(lambda _: called, _FROM_A_CHECKOUT.sub(lambda _: called, text))

    return spell


def on_host(host: str, verbs: Iterable[str]) -> Callable[[str], str]:
    """Return a function that adds --host to each `ktrial` command in a text for which --host has an effect."""
    names = "|".join(
        re.escape(verb) + "".join(f"(?! {re.escape(word)}\\b)" for word in _OF_NO_HOST_IN.get(verb, ()))
        for verb in verbs
        if verb not in _OF_NO_HOST
    )
    command = re.compile(rf"(?<![\w./-])((?:\./)?ktrial)(?= (?:{names})(?![\w.:/-]))")

    def spell(text: str) -> str:
        return command.sub(lambda found: f"{found[1]} --host {shlex.quote(host)}", text)

    return spell
