# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.results.text import session_text, sessions_text
from tests.support.stores import a_session

SESSIONS = [
    a_session(
        "20261122T035858Z-42a5cb", suite="agent-memcpy", kernel_release="6.18.44-fc-v595", runs={"ok": 8, "failed": 2}
    ),
    a_session("20261122T035847Z-b58cbb", suite="sleep", label="p1", runs={"ok": 10, "interrupted": 1}),
]


@pytest.mark.parametrize(
    "width, headers",
    [
        (60, "session suite label runs from"),
        (70, "session suite label kernel runs from"),
        (80, "session when (UTC) suite label kernel runs from"),
        (120, "session when (UTC) suite label kernel runs from"),
    ],
)
def test_sessions_fit_the_width_and_no_word_is_broken(width: int, headers: str) -> None:
    lines = sessions_text(SESSIONS, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == headers.split()
    words = " ".join(lines).split()
    assert {"20261122T035858Z-42a5cb", "20261122T035847Z-b58cbb", "interrupted", "failed"} <= set(words)


def test_a_session_tells_what_was_left_out() -> None:
    document = {"missing": {"schbench": "schbench is not installed"}}
    text = session_text(a_session("20261122T035847Z-b58cbb", document=document), (), (), width=80)
    assert "missing     schbench: schbench is not installed" in text.splitlines()
    assert "missing" not in session_text(a_session("20261122T035847Z-b58cbb", document={}), (), (), width=80)
