# SPDX-License-Identifier: Apache-2.0
"""A program that waits until it is let go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ktrial.kit.errors import BadInput
from ktrial.watch.record.held_program import HeldProgram


def test_its_command_can_be_given_again_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = tmp_path / "game"
    game.write_text("#!/bin/sh\nexit 3\n")
    game.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for words, command in ((("./game", "a b"), (str(game), "a b")), (("true",), (shutil.which("true"),))):
        program = HeldProgram(words)
        program.close()
        assert program.command == command


def test_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="not-there-at-all: no such program"):
        HeldProgram(("not-there-at-all",))
