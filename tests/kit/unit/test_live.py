# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import os

import pytest

from ktrial.kit.console import LiveLines, coloured, is_live
from tests.support.screen import Screen


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_on(screen: Screen) -> LiveLines:
    return LiveLines(screen.write, lambda: screen.size)


@pytest.mark.parametrize(
    "environment,live",
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_only_a_terminal_that_can_is_drawn_on(environment: dict[str, str], live: bool) -> None:
    assert is_live(Tty(), environment) is live
    assert not is_live(io.StringIO(), environment)


def test_lines_are_drawn_in_place() -> None:
    screen = Screen(40, 10)
    screen.write("$ ktrial try\n")
    live = lines_on(screen)
    live.draw(["one", "a long line", "three"])
    live.draw(["ONE", "short"])
    assert screen.lines == ["$ ktrial try", "ONE", "short"]


def test_text_goes_above_the_lines() -> None:
    screen = Screen(40, 10)
    live = lines_on(screen)
    live.draw(["picture", "of two lines"])
    live.say("a run gave nothing\n")
    live.draw(["picture", "of 2 lines"])
    assert screen.lines == ["a run gave nothing", "picture", "of 2 lines"]


def test_more_lines_than_rows_are_left_out_and_nothing_scrolls_away() -> None:
    screen = Screen(40, 4)
    live = lines_on(screen)
    for number in range(3):
        live.draw([f"{number} line {place}" for place in range(9)])
    assert screen.lines == ["2 line 0", "2 line 1", "2 line 2"]


@pytest.mark.parametrize("reflows", [True, False])
def test_a_resize_never_takes_away_what_is_not_its_own(reflows: bool) -> None:
    screen = Screen(60, 10, reflows=reflows)
    screen.write("the trial is announced\n")
    live = lines_on(screen)
    live.draw(["wide " * 10, "second"])
    screen.resize(30, 10)
    live.draw(["narrow " * 10, "second"])
    live.draw(["narrow again", "last"])
    assert screen.lines[0] == "the trial is announced"
    assert screen.lines[-2:] == ["narrow again", "last"]
    assert "narrow narrow" not in "".join(screen.lines), "what was drawn since is drawn over"
    screen.resize(90, 20)
    live.draw(["wide again", "very last"])
    assert screen.lines[-2:] == ["wide again", "very last"]
    assert "narrow again" not in screen.lines


def test_no_line_reaches_the_last_column() -> None:
    screen = Screen(20, 10)
    live = lines_on(screen)
    assert live.columns == 19
    live.draw(["x" * 50, "y"])
    assert screen.lines == ["x" * 19, "y"]


def test_words_that_judge_have_a_colour_and_nothing_else_reaches_the_terminal() -> None:
    text = (
        "arm      verdict         change\n"
        "better   worse           -3 %\n"
        "b        not comparable  -\n"
        "  a better idea: \x1b[2J\n"
        "doubt     too few events\n"
    )
    green, red, yellow, end = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
    assert coloured(text) == (
        "arm      verdict         change\n"
        f"better   {red}worse{end}           -3 %\n"
        f"b        {red}not comparable{end}  -\n"
        "  a better idea: \\x1b[2J\n"
        f"{yellow}doubt{end}     too few events\n"
    )
    assert coloured("              better: swappiness-10\n") == f"              {green}better{end}: swappiness-10\n"


def test_a_serial_console_without_a_size_has_the_usual_one() -> None:
    written: list[str] = []
    lines = LiveLines(written.append, lambda: os.terminal_size((0, 0)))
    assert lines.columns == 79
    lines.draw(["a" * 100, "b"])
    assert "".join(written) == "a" * 79 + "\x1b[K\nb\x1b[K\n\x1b[J"
