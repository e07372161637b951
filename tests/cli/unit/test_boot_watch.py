# SPDX-License-Identifier: Apache-2.0
"""A machine that is watched from another one, and whose power is switched when it hangs."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial.cli.shared.boot_watch import (
    WatchedMachine,
    read_after,
    read_command,
    read_host,
    watch_machine,
)
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.tuning.boots.power import PowerTerms, PowerWatch


def test_a_silence_is_ended_by_an_answer_or_by_the_command() -> None:
    watch = PowerWatch(PowerTerms(after_s=60, times=2))
    course = [(0, True), (5, False), (64, False), (65, False), (70, False), (130, True), (135, False), (195, False)]
    seen = [watch.see(now_s, answers=answers) for now_s, answers in course]
    assert seen == ["up", "silent", "silent", "switch", "silent", "back", "silent", "switch"]
    assert [watch.see(now_s, answers=False) for now_s in (254, 255, 315)] == ["silent", "switch", "lost"]
    assert watch.silent_s(315) == 180


def test_a_machine_that_never_answered_is_never_switched() -> None:
    watch = PowerWatch(PowerTerms(after_s=60, times=2))
    assert {watch.see(now_s, answers=False) for now_s in range(0, 10**6, 5000)} == {"unseen"}
    assert watch.see(10**6, answers=True) == "up"
    assert [watch.see(10**6 + later_s, answers=False) for later_s in (1, 61)] == ["silent", "switch"]


class TimedMachine:
    """A clock whose seconds pass when somebody sleeps, and a port that `events` opens and closes at their times."""

    def __init__(self, events: dict[int, Callable[[], None]]) -> None:
        self._events, self.now_s = events, 0.0

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def unix_ms(self) -> int:
        return self.monotonic_ns() // 10**6

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for at in [at for at in self._events if at <= self.now_s]:
            self._events.pop(at)()


def end() -> None:
    raise KeyboardInterrupt


def watch(clock: TimedMachine, watched: WatchedMachine, *, as_json: bool = True) -> int:
    app: Any = SimpleNamespace(clock=clock, interrupts=contextlib.nullcontext(), say=lambda _: None)
    return watch_machine(app, watched, PowerTerms(60, 2), as_json=as_json)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/ktrial/power.jsonl"


def test_the_command_brings_back_a_machine_whose_port_is_silent(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = tmp_path / "console"
    console.write_text("booting\nKernel panic - not syncing\n")
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    revived: list[socket.socket] = []
    later: dict[int, Callable[[], None]] = {
        10: server.close,
        100: lambda: revived.append(socket.create_server(("127.0.0.1", port))),
        120: end,
    }
    watched = WatchedMachine("127.0.0.1", port, (), ("touch", str(tmp_path / "switched")), console)
    with pytest.raises(KeyboardInterrupt):
        watch(TimedMachine(later), watched)
    revived[0].close()
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["event"], one["silent_s"]) for one in events] == [("switched", 60), ("back", 90)]
    assert (events[0]["status"], events[0]["console"][-1]) == (0, "Kernel panic - not syncing")
    assert (tmp_path / "switched").exists()
    assert [json.loads(line) for line in state.read_text().splitlines()] == events
    assert state.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def once(tmp_path: Path) -> tuple[str, ...]:
    """Return a command that succeeds once."""
    return ("mkdir", str(tmp_path / "answered"))


def test_a_machine_that_does_not_answer_at_the_start_is_not_watched(tmp_path: Path, state: Path) -> None:
    switch = ("touch", str(tmp_path / "switched"))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    silent = [
        (WatchedMachine("127.0.0.1", port, (), switch, None), f"wait until port {port} of 127.0.0.1 answers"),
        (WatchedMachine("server", 22, ("false",), switch, None), "wait until `false` succeeds"),
    ]
    for watched, step in silent:
        with pytest.raises(KtrialError, match=f"cannot watch {watched.host}: it does not answer now") as error:
            watch(TimedMachine({}), watched)
        assert step in str(error.value.hint)
    for name in ("no-such-server.invalid", "a..b", "a" * 64):
        with pytest.raises(KtrialError, match=f"cannot watch {name}: .+") as error:
            watch(TimedMachine({}), WatchedMachine(name, 22, (), switch, None))
        assert error.value.hint == "check the name, or give the machine's address"
    assert not (tmp_path / "switched").exists()
    assert not state.exists()


def test_it_gives_up_on_a_machine_that_stays_silent(
    state: Path, once: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    watched = WatchedMachine("server", 22, once, ("sh", "-c", "echo no such outlet >&2; exit 4"), None)
    assert watch(TimedMachine({}), watched, as_json=False) == 1
    said = capsys.readouterr().out
    assert said.count("ran sh -c 'echo no such outlet >&2; exit 4' (status 4): no such outlet") == 2
    assert "server has not answered for 180 s, and power-cycling it did not help" in said
    assert len(state.read_text().splitlines()) == 3


def test_a_command_that_cannot_start_is_said(
    state: Path, once: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    watched = WatchedMachine("server", 22, once, ("/no/such/ipmitool",), Path("/no/such/console"))
    assert watch(TimedMachine({}), watched, as_json=False) == 1
    said = capsys.readouterr().out
    assert "(failed): cannot start it: No such file or directory" in said
    assert "cannot read /no/such/console: No such file or directory" in said
    with pytest.raises(KtrialError, match="cannot start /no/such/ping"):
        watch(TimedMachine({}), WatchedMachine("server", 22, ("/no/such/ping",), ("true",), None))
    assert state.exists()


@pytest.mark.parametrize(
    "text,host",
    [
        ("server", ("server", 22)),
        ("server:2222", ("server", 2222)),
        ("192.0.2.1:80", ("192.0.2.1", 80)),
        ("2001:db8::1", ("2001:db8::1", 22)),
        ("[2001:db8::1]:2222", ("2001:db8::1", 2222)),
    ],
)
def test_machines_are_named_as_ssh_names_them(text: str, host: tuple[str, int]) -> None:
    assert read_host(text) == host


@pytest.mark.parametrize("text", ["", "a b", "server:", "server:0", "server:65536", "server:x", "[::1", "a:b:c:22"])
def test_other_names_of_machines_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="as the name of a machine"):
        read_host(text)


def test_commands_and_times_that_make_no_sense_are_refused() -> None:
    assert read_command("--power", "ipmitool -H 'a b' power cycle") == ("ipmitool", "-H", "a b", "power", "cycle")
    assert read_after("15min") == 900
    for bad in ("'", " "):
        with pytest.raises(BadInput, match="--power"):
            read_command("--power", bad)
    for bad in ("x", "5s", "25h"):
        with pytest.raises(BadInput, match="--after"):
            read_after(bad)
