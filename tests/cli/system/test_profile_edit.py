# SPDX-License-Identifier: Apache-2.0
"""`ktrial profile edit`: a copy with an origin; whatever happens to the editor, the text is not lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.terminal import Terminal
from tests.support.tree import FakeRoot

EDIT = ("profile", "edit", "quiet", "--as", "mine")


def own(part: str) -> Path:
    return Path.home() / ".config/ktrial" / part / "mine.toml"


def with_editor(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> tuple[int, str]:
    """Run the edit on a terminal with this shell script as the editor."""
    editor = folder / "my editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", f"'{editor}' --wait")
    terminal = Terminal([sys.executable, "-m", "ktrial", *EDIT])
    try:
        return terminal.end(), terminal.said
    finally:
        terminal.kill()


def test_without_a_terminal_it_only_copies(root: FakeRoot) -> None:
    done = root.run(*EDIT)
    assert (done.status, done.out) == (0, f"{own('profiles')}\n"), done.err
    assert "copy of quiet (ktrial " in root.run("profiles", "mine").out
    assert root.run("plan", "mine").status == 0
    again = root.run(*EDIT)
    assert again.status == 2
    assert "is taken" in again.err
    assert "edit mine with `ktrial profile edit mine`" in again.err
    assert root.run("profile", "edit", "mine", "--json").json["file"] == str(own("profiles"))


@pytest.mark.parametrize(
    "words, why",
    [
        (("quite", "--as", "mine"), "did you mean quiet?"),
        (("quiet", "--as", "power"), "the name power is taken"),
        (("quiet", "--as", "../mine"), "invalid profile name"),
        (("quiet",), "`ktrial profile edit quiet --as NAME`"),
        (("stock", "--as", "mine"), "computed on each machine"),
    ],
)
def test_what_cannot_be_copied_is_refused(root: FakeRoot, words: tuple[str, ...], why: str) -> None:
    done = root.run("profile", "edit", *words)
    assert done.status == 2
    assert why in done.err
    assert not (Path.home() / ".config/ktrial").exists()


def test_the_edited_text_counts_once_it_is_valid(
    root: FakeRoot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, said = with_editor(monkeypatch, tmp_path, 'echo "[[setting]" >> "$2"')
    assert status == 2
    assert str(own("drafts")) in said.replace("\r\n", "")
    assert "the same command opens the draft again" in " ".join(said.split())
    assert not own("profiles").exists()
    assert root.run("profiles").status == 0  # a draft with a mistake stops nothing
    status, said = with_editor(monkeypatch, tmp_path, 'sed -i "s/^.*\\[\\[setting\\]$/# mended/" "$2"')
    assert status == 0, said
    assert "continuing with the draft" in said
    assert own("profiles").read_text().endswith("# mended\n")
    assert not own("drafts").exists()


@pytest.mark.parametrize(
    "script, why",
    [
        ('echo "# my work" >> "$2"; exit 7', "ended with status 7"),
        ('echo "# my work" >> "$2"; kill -KILL $$', "ended with signal 9"),
        ('sed -i "s/^name = .*/name = \\"other\\"  # my work/" "$2"', "the profile is named other"),
        ('sed -i "s/^name = .*/name = \\"power\\"  # my work/" "$2"', "profile power already exists"),
    ],
)
def test_an_edit_that_fails_loses_nothing(
    root: FakeRoot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    status, said = with_editor(monkeypatch, tmp_path, script)
    assert status in {1, 2}
    assert why in said
    assert str(own("drafts")) in said
    assert "# my work" in own("drafts").read_text()
    assert not own("profiles").exists()


def test_an_editor_that_is_not_there_is_named(root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor -w")
    terminal = Terminal([sys.executable, "-m", "ktrial", *EDIT])
    assert terminal.end() == 1
    assert "cannot start the editor 'no-such-editor -w': No such file" in terminal.said
    assert own("drafts").exists()
