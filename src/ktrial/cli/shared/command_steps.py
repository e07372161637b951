# SPDX-License-Identifier: Apache-2.0
"""The commands of `--prepare`, which run before each run of a measured command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ktrial.kit.errors import BadInput, in_lower_case, quoting_hint

#: Words by which a shell joins commands or redirects their output.
_OF_A_SHELL = frozenset(("|", "||", "&", "&&", ">", ">>", "<", "2>", "2>&1"))


def prepare_steps(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command, which runs without a shell. Raise BadInput for a command that needs a shell."""
    return tuple(map(_words, texts))


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(
            f"--prepare: cannot read {text!r}: {in_lower_case(str(error))}", hint=quoting_hint(error)
        ) from None
    if not words or not words[0]:
        raise BadInput("--prepare: the command is empty", hint="for example  --prepare 'make clean'")
    if found := next((word for word in words if word in _OF_A_SHELL or (word != ";" and word.endswith(";"))), None):
        raise BadInput(
            f"--prepare: {found!r} needs a shell, and ktrial does not use one",
            hint="start a shell yourself:  --prepare \"sh -c 'make clean && sync'\"",
        )
    return words
