# SPDX-License-Identifier: Apache-2.0
"""Lines of a watch that goes on."""

from __future__ import annotations

import json

import pytest

from ktrial.cli.shared.watch import WatchShown
from ktrial.cli.shared.watch_session import draws
from ktrial.recordings.watching import MachineView
from tests.support.written_recordings import HEAD, START_NS, block, events


def seen(second: int) -> MachineView:
    return MachineView(
        at_ns=START_NS + second * 10**9, started_ns=START_NS, cpu_ns=1, bytes=1, lost=0, columns={}, events=()
    )


def many(count: int, second: int) -> bytes:
    return events(*({"kind": "kswapd", "begin_ns": START_NS + second * 10**9 + one} for one in range(count)))


def told(shown: WatchShown) -> None:
    shown.handed(b"ktrial.recording/1\n" + block("H", HEAD))
    shown.seen(seen(1))
    shown.handed(many(57, 2))
    shown.seen(seen(3))
    shown.handed(many(500, 4))
    shown.seen(seen(6))
    shown.handed(many(4, 6))
    shown.ended()
    shown.ended()


def test_the_column_of_events_counts_all_that_are_kept_and_none_twice(capsys: pytest.CaptureFixture[str]) -> None:
    told(WatchShown(5.0, as_json=False))
    lines = [line for line in capsys.readouterr().err.splitlines() if " s  " in line and "kswapd" not in line]
    assert [line.split()[-3] for line in lines] == ["0", "557", "4"]


def test_why_nothing_is_traced_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for why, said in (("it is mounted \x1bread-only", 1), ("not asked for", 0)):
        shown = WatchShown(5.0, as_json=False)
        head = {**HEAD, "absent": {"trace": why}}
        shown.handed(b"ktrial.recording/1\n" + block("H", head))
        shown.handed(many(1, 2))
        lines = [line for line in capsys.readouterr().err.splitlines() if "not tracing events" in line]
        assert len(lines) == said
        assert "\x1b" not in "".join(lines)


def test_programs_get_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    told(WatchShown(1.0, as_json=True))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["events"]) for line in lines] == [0, 57, 500, 4]


def test_nothing_is_drawn_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not draws(True, as_json=False, shares_terminal=False)
    monkeypatch.setattr("ktrial.cli.shared.watch_session.is_live", lambda stream, environment: True)
    assert draws(None, as_json=False, shares_terminal=False)
    assert not draws(None, as_json=False, shares_terminal=True)
    assert draws(True, as_json=False, shares_terminal=True)
    assert not draws(False, as_json=False, shares_terminal=False)
    assert not draws(True, as_json=True, shares_terminal=False)
