# SPDX-License-Identifier: Apache-2.0
"""The live view of `ktrial watch` on a terminal."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.terminal import KTRIAL, Terminal

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="tracing needs root"),
    pytest.mark.xdist_group("watch"),
]

#: Draws, on a terminal of 80 columns and 24 rows.
_DRAWS = ("env", "-u", "NO_COLOR", "TERM=xterm", "sh", "-c", 'stty cols 80 rows 24; exec "$@"', "sh", *KTRIAL, "watch")


def test_it_draws_in_place_and_a_ctrl_c_ends_it_with_the_sum(tmp_path: Path) -> None:
    terminal = Terminal([*_DRAWS, "-o", str(tmp_path / "r")])
    try:
        terminal.wait_for("memory pressure")
        terminal.wait_for("\x1b[")
        terminal.wait_for("the machine, 7 s")
        terminal.type("\x03")
        assert terminal.end() == 0
    finally:
        terminal.kill()
    assert "ktrial watch: the machine" in terminal.said
    assert "the agent took" in terminal.said
    assert re.search(r"stutters? among [1-9]\d\d+ wake-ups", terminal.said)
    drawn = terminal.said.partition("watched for")[0].split("\x1b[J")
    assert len(drawn) >= 7
    assert all(len(re.sub("\x1b.*", "", line)) < 80 for part in drawn for line in part.split("\r\n"))
    assert (tmp_path / "r" / "recording.ktr").stat().st_size > 1000


def test_a_program_on_the_same_terminal_gets_plain_lines(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "import time; print('hello'); time.sleep(1.5)")
    terminal = Terminal([*_DRAWS, "-o", str(tmp_path / "r"), "--", *program])
    try:
        assert terminal.end() == 0
    finally:
        terminal.kill()
    assert "hello" in terminal.said
    assert "available" in terminal.said
    assert "\x1b[" not in terminal.said
