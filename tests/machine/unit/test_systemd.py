# SPDX-License-Identifier: Apache-2.0
"""What systemctl and loginctl say, recorded from a booted system, and anything else that they might."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ktrial.bench.around.idle import read_access_times
from ktrial.kit.errors import UnreadableOutput
from ktrial.machine.disturbance import read_list_timers
from ktrial.machine.logins import LoginSession, read_session_ids, read_sessions

GOLDEN = Path(__file__).parents[2] / "golden" / "systemd"
READERS: dict[str, Callable[[bytes, str], Any]] = {
    "list-timers-252": read_list_timers,
    "list-sessions-252": read_session_ids,
    "show-session-252-busy": read_sessions,
    "show-session-252-idle": read_sessions,
}


def recorded(case: str) -> bytes:
    return (GOLDEN / case / "input").read_bytes()


def test_every_case_says_where_it_is_from() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(READERS)
    for path in GOLDEN.glob("*/why"):
        assert len(path.read_text(encoding="utf-8").split()) >= 5


def test_timers_with_and_without_a_next_time() -> None:
    timers = {timer.unit: timer for timer in read_list_timers(recorded("list-timers-252"), "here")}
    assert len(timers) == 8
    assert timers["apt-daily.timer"].activates == "apt-daily.service"
    assert timers["fstrim.timer"].next_unix_us is None
    # Midnight of 2026-11-22, as `date -u -d 2026-11-22 +%s` says.
    assert timers["dpkg-db-backup.timer"].next_unix_us == 1_795_305_600_000_000


def test_no_timers_are_none() -> None:
    assert read_list_timers(b"[]", "here") == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"Unknown output 'json'.",
        b"[1]",
        b'[{"unit": "a"}]',
        b'[{"unit": "", "activates": "b", "next": 1}]',
        b'[{"unit": "a", "activates": "b", "next": -1}]',
        b'[{"unit": "a", "activates": "b", "next": "1"}]',
        b'[{"unit": "a", "activates": "b", "next": NaN}]',
    ],
)
def test_what_is_no_list_of_timers_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableOutput, match="a list of timers"):
        read_list_timers(data, "here")


def test_sessions() -> None:
    assert read_session_ids(recorded("list-sessions-252"), "here") == ("c1",)
    assert read_session_ids(b"", "here") == ()
    (busy,) = read_sessions(recorded("show-session-252-busy"), "here")
    assert busy == LoginSession(id="c1", kind="wayland", name="alice", graphical=True, idle=False, since_unix_us=None)
    assert busy.idle_s(1) == 0.0
    (idle,) = read_sessions(recorded("show-session-252-idle"), "here")
    assert idle.idle
    assert idle.since_unix_us is not None
    assert idle.idle_s(idle.since_unix_us + 5_000_000) == 5.0
    assert idle.idle_s(0) == 0.0


def test_a_text_session_counts_from_its_terminal_whatever_the_hint_says() -> None:
    data = recorded("show-session-252-idle").replace(b"wayland", b"tty").replace(b"IdleHint=yes", b"IdleHint=no")
    (session,) = read_sessions(data, "here")
    assert session.idle_s((session.since_unix_us or 0) + 7_000_000) == 7.0
    (unknown,) = read_sessions(recorded("show-session-252-busy").replace(b"wayland", b"tty"), "here")
    assert unknown.idle_s(10) is None


@pytest.mark.parametrize("old, new", [(b"Class=user", b"Class=greeter"), (b"active", b"closing"), (b"wayland", b"web")])
def test_sessions_without_a_person_are_left_out(old: bytes, new: bytes) -> None:
    assert read_sessions(recorded("show-session-252-busy").replace(old, new), "here") == ()


def test_several_sessions() -> None:
    both = recorded("show-session-252-busy") + b"\n" + recorded("show-session-252-idle")
    assert [session.idle for session in read_sessions(both, "here")] == [False, True]


@pytest.mark.parametrize(
    "old, new",
    [(b"IdleHint=no\n", b""), (b"IdleHint=no", b"IdleHint=maybe"), (b"Hint=0", b"Hint=-1"), (b"Hint=0", b"Hint=")],
)
def test_properties_that_are_none_are_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(UnreadableOutput):
        read_sessions(recorded("show-session-252-busy").replace(old, new), "here")


def test_terminals() -> None:
    said = (
        b"1795129376.6638385970 1795129300.0 /dev/tty2\n1795129380.0000000000 1795100000.5 /dev/pts/0\n"
        b"1795129390.5 1795129390.7 /dev/pts/1\n"
    )
    assert read_access_times(said, "find") == {
        "/dev/tty2": pytest.approx(1795129376.66),
        "/dev/pts/0": 1795129380.0,
        "/dev/pts/1": 0.0,  # nobody has typed into it yet
    }
    for bad in (b"", b"x 1 /dev/tty1\n", b"1 x /dev/tty1\n", b"1 1 tty1\n", b"1 /dev/tty1\n", b"1e400 1 /dev/tty1\n"):
        with pytest.raises(UnreadableOutput):
            read_access_times(bad, "find")


@given(case=st.sampled_from(sorted(READERS)), data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(case: str, data: bytes) -> None:
    with contextlib.suppress(UnreadableOutput):
        READERS[case](data, "here")
    with contextlib.suppress(UnreadableOutput):
        read_access_times(data, "here")


@example(case="list-timers-252", at=121, new=b"\x80", cut=0)  # within a name
@given(case=st.sampled_from(sorted(READERS)), at=st.integers(0, 2000), new=st.binary(max_size=6), cut=st.integers(0, 9))
def test_any_change_is_read_or_refused(case: str, at: int, new: bytes, cut: int) -> None:
    data = recorded(case)
    with contextlib.suppress(UnreadableOutput):
        READERS[case](data[:at] + new + data[at + cut :], "here")


VALUES = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans()


@given(st.lists(st.dictionaries(st.sampled_from(["unit", "activates", "next", "x"]), VALUES), max_size=3))
def test_any_table_is_timers_or_refused(rows: list[Any]) -> None:
    with contextlib.suppress(UnreadableOutput):
        for timer in read_list_timers(json.dumps(rows).encode(), "here"):
            assert timer.unit
            assert timer.next_unix_us is None or timer.next_unix_us > 0
