# SPDX-License-Identifier: Apache-2.0
"""What each verb says, word for word: `tests/golden/transcripts` has a session of every one, on a machine of files.

`./check --fix` writes down what is said now (`KTRIAL_RECORD=1` before pytest).
"""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

from ktrial.cli import verbs
from tests.support.boot_machine import boot_with_grub
from tests.support.tree import FakeRoot

TRANSCRIPTS = Path(__file__).parents[2] / "golden" / "transcripts"
#: Folders that commands and answers name so.
EXAMPLES = Path(__file__).parents[3] / "examples"
PLACES = {"RESULTS": EXAMPLES / "results", "LISTS": EXAMPLES / "lists", "GOLDEN": TRANSCRIPTS.parent}
PROMPT = "$ ktrial "
#: Sessions on a machine that has more than the others.
MACHINES = {"boot": boot_with_grub}
#: A session is named by the moment of its import.
NAMED_NOW = re.compile(r"\b20\d{6}T\d{6}Z-[0-9a-f]{6}\b")


def session(root: FakeRoot, commands: list[str]) -> str:
    """The commands, each with its output, what it said beside that (after `!`), and a status that is not 0."""
    told = []
    for command in commands:
        words = shlex.split(command)
        for name, place in PLACES.items():
            words = [word.replace(name, str(place)) for word in words]
        ran = root.run(*words)
        beside = "".join(f"! {line}\n" for line in ran.err.splitlines())
        status = f"[status {ran.status}]\n" if ran.status else ""
        told.append(f"{PROMPT}{command}\n{ran.out}{beside}{status}")
    text = "\n".join(told)
    for name, place in {**PLACES, "ROOT": root.folder, "HOME": Path.home()}.items():
        text = text.replace(str(place), name)
    return NAMED_NOW.sub("20000101T000000Z-000000", text)


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_session_is_as_it_was_written_down(path: Path, root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(root.folder)
    MACHINES.get(path.stem, lambda machine: machine)(root)
    text = path.read_text(encoding="utf-8")
    commands = [line.removeprefix(PROMPT) for line in text.splitlines() if line.startswith(PROMPT)]
    told = session(root, commands)
    if os.environ.get("KTRIAL_RECORD"):
        path.write_text(told, encoding="utf-8")
    else:
        assert told == text


def test_every_verb_has_its_session() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TRANSCRIPTS.glob("*.txt")]
    said = {
        line.removeprefix(PROMPT).split()[0] for text in texts for line in text.splitlines() if line.startswith(PROMPT)
    }
    names = {module.name.replace("_", "-") for module in pkgutil.iter_modules(verbs.__path__)}
    assert sorted(names - said) == []
