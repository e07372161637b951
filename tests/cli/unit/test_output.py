# SPDX-License-Identifier: Apache-2.0
"""Texts for people: colours on a terminal, a pager for what is longer than the screen."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import click
import pytest

from ktrial.cli import options
from ktrial.cli.options import write_text

TEXT = "arm  verdict\n\na    better\n"
SHOWN = TEXT.replace("better", "\x1b[32mbetter\x1b[0m")


class Terminal(io.StringIO):
    """A terminal of a few lines."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal of three lines, and what was given to a pager."""
    found: list[str] = []
    streams = SimpleNamespace(stdin=Terminal(), stdout=Terminal())
    monkeypatch.setattr(options, "sys", streams)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 3)))
    monkeypatch.setattr(click, "echo_via_pager", lambda text, **_: found.append(text))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("PAGER", raising=False)
    return found


def written() -> str:
    value: str = options.sys.stdout.getvalue()  # type: ignore[attr-defined]
    return value


def test_a_verdict_has_its_colour_unless_nobody_wants_one(paged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(TEXT)
    assert (written(), paged) == (SHOWN, [])
    monkeypatch.setenv("NO_COLOR", "1")
    write_text(TEXT)
    assert written() == SHOWN + TEXT


def test_what_is_longer_than_the_screen_gets_a_pager(paged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(TEXT, pages=True)
    assert (written(), paged) == ("", [SHOWN])
    write_text("short\n", pages=True)
    assert written() == "short\n"
    monkeypatch.setenv("PAGER", "cat")
    write_text(TEXT, pages=True)
    assert written() == f"short\n{SHOWN}"
    monkeypatch.delenv("PAGER")
    monkeypatch.setattr(options.sys, "stdout", io.StringIO())  # type: ignore[attr-defined]
    write_text(TEXT, pages=True)
    assert (written(), paged) == (TEXT, [SHOWN])
