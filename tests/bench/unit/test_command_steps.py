# SPDX-License-Identifier: Apache-2.0
"""What `--prepare` takes: words as a shell would split them, and no shell."""

from __future__ import annotations

import pytest

from ktrial.cli.shared.command_steps import prepare_steps
from ktrial.kit.errors import BadInput


def test_commands_are_split_into_words() -> None:
    assert prepare_steps(()) == ()
    assert prepare_steps(("make clean", "sh -c 'sync; a && b > c'", "find . -exec rm {} ;")) == (
        ("make", "clean"),
        ("sh", "-c", "sync; a && b > c"),
        ("find", ".", "-exec", "rm", "{}", ";"),
    )


@pytest.mark.parametrize(
    "text, why",
    [
        ("make && sync", "'&&' needs a shell"),
        ("echo a > b", "'>' needs a shell"),
        ("sync; make", "'sync;' needs a shell"),
        ("a | b", "needs a shell"),
        ("sh -c 'a", "cannot read"),
        ("", "the command is empty"),
        ("''", "the command is empty"),
    ],
)
def test_what_only_a_shell_understands_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match="--prepare: ") as caught:
        prepare_steps((text,))
    assert why in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "text, hint", [("sh -c 'a", "close each quote"), ("make \\", "remove the backslash at the end")]
)
def test_a_hint_names_what_is_open(text: str, hint: str) -> None:
    with pytest.raises(BadInput, match="cannot read") as caught:
        prepare_steps((text,))
    assert (caught.value.hint or "").startswith(hint)
