# SPDX-License-Identifier: Apache-2.0
"""Guests that are kept for other commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.cli.shared.kept_guests import Asleep, kernel_from_anywhere, tool_from_anywhere
from ktrial.kit.errors import AgentError


def test_what_an_exact_guest_is_booted_of_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("built", "running", "hackbench"):
        (tmp_path / name).mkdir()
    here = str(tmp_path)
    words = ("built", "../built", "/", "running", "6.12.1-amd64", "./not-there")
    (tmp_path.parent / "built").mkdir()
    assert [kernel_from_anywhere(word) for word in words] == [
        f"{here}/built",
        f"{here}/../built",
        "/",
        "running",
        "6.12.1-amd64",
        "./not-there",
    ]
    assert [tool_from_anywhere(word) for word in ("hackbench", "./hackbench", "/bin/sh")] == [
        "hackbench",
        f"{here}/hackbench",
        "/bin/sh",
    ]


def test_an_exact_guest_that_is_kept_is_told_to_have_another_word() -> None:
    with pytest.raises(AgentError, match="cannot open a session in an exact guest") as caught:
        Asleep().open(["serve"], root=True)
    assert caught.value.hint == "use --host exact:NAME"
