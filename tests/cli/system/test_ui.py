# SPDX-License-Identifier: Apache-2.0
"""`ktrial ui` on a terminal of its own: it reads this machine, watches it, and leaves the terminal as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.terminal import KTRIAL, Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    state = f"XDG_STATE_HOME={tmp_path}"
    opened = Terminal(["env", "TERM=xterm", "COLUMNS=80", "LINES=40", state, *KTRIAL, "--no-sudo", "ui"])
    yield opened
    opened.kill()


def test_it_reads_and_watches_this_machine(terminal: Terminal) -> None:
    terminal.wait_for("Applied and kept")
    terminal.wait_for("No trial is under way.")
    terminal.type("y")
    terminal.wait_for("for example vm.swappiness")
    terminal.type("vm.swappiness\r")
    terminal.wait_for("/proc/sys/vm/swappiness")
    terminal.type("w")
    terminal.wait_for("cpu pressure")
    terminal.type("q")
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.said, "the shell's screen is back"
    assert "Traceback" not in terminal.said


def test_a_dumb_terminal_is_refused(tmp_path: Path) -> None:
    refused = Terminal(["env", "TERM=dumb", *KTRIAL, "ui"])
    assert refused.end() == 2
    assert "cannot draw a screen: TERM is dumb" in refused.said
    assert "ktrial status" in refused.said
