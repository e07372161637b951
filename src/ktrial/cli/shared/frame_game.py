# SPDX-License-Identifier: Apache-2.0
"""The game that `ktrial frames` starts: its program, its environment, how its frames are told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktrial.cli.shared.bench import program_of
from ktrial.cli.shared.command_environment import named_variables, started_environment
from ktrial.kit.errors import BadInput
from ktrial.watch.frames import Game


def game_of(words: Sequence[str], variables: Sequence[str], *, clean: bool, **more: Any) -> Game:
    """Return the game of these words, with the fields that the options say. Raises BadInput."""
    if not words:
        raise BadInput("no command after --", hint="for example  ktrial frames -- glxgears")
    return Game(
        argv=(str(program_of(words[0])), *words[1:]),
        environment=started_environment(variables, clean=clean),
        named=frozenset(named_variables(variables)),
        directory=str(Path.cwd()),
        own_test=any(word.startswith("--fps_test=") for word in words),
        **more,
    )
