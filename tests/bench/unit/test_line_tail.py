# SPDX-License-Identifier: Apache-2.0
"""Following a log and a pipe."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ktrial.bench.run.tail import LineTail
from ktrial.kit.errors import BadInput


def test_lines_written_meanwhile_come_and_older_ones_do_not(tmp_path: Path) -> None:
    file = tmp_path / "game.log"
    file.write_text("old\n")
    tail = LineTail(file)
    before_ns = time.monotonic_ns()
    with file.open("a") as log:
        log.write("frame 1\nfra")
        log.flush()
        log.write("me 2\n\x1b[2Jhalf")
    tail.stop()
    lines = tail.take()
    assert [line.text for line in lines] == ["frame 1", "frame 2"]
    assert all(line.at_ns >= before_ns for line in lines)


def test_a_pipe_is_followed_too(tmp_path: Path) -> None:
    pipe = tmp_path / "frames"
    os.mkfifo(pipe)
    tail = LineTail(pipe)
    writer = os.open(pipe, os.O_WRONLY)
    os.write(writer, b"16 ms\n")
    os.close(writer)
    tail.stop()
    assert [line.text for line in tail.take()] == ["16 ms"]
    assert tail.take() == []


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput):
            LineTail(path)
