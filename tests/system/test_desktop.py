# SPDX-License-Identifier: Apache-2.0
"""A desktop on a real session bus is asked not to lock while something is measured."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.bench.around.session_bus import Bus, BusError, read_message, text
from tests.support.kept import records
from tests.system.test_bench import home, run

__all__ = ["home"]
BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus")
NAME = "org.freedesktop.ScreenSaver"
COOKIE = (4711).to_bytes(4, "little")


class ScreenSaver(threading.Thread):
    """Stands for the desktop: hands out one cookie, and writes down what it was asked for."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.asked: list[tuple[str | int, bytes]] = []
        self.bus = Bus(address)
        body = text(NAME) + bytes(-len(text(NAME)) % 4 + 4)
        assert self.bus.call(*BUS, "RequestName", "su", body).body == b"\1\0\0\0"
        self.sender = self.bus._socket
        self.sender.settimeout(60)

    def run(self) -> None:
        while True:
            try:
                message = read_message(self.bus.take)
            except (BusError, OSError):
                return
            if message.kind != 1:
                continue
            self.asked.append((message.fields[3], message.body))
            inhibits = message.fields[3] == "Inhibit"
            signature: dict[int, str | int] = {8: "u"} if inhibits else {}
            reply = {5: message.serial, 6: message.fields[7], **signature}
            self.bus.send(2, reply, COOKIE if inhibits else b"")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A session bus of the test's own."""
    path = tmp_path / "bus"
    argv = ["dbus-daemon", "--session", "--nofork", f"--address=unix:path={path}", "--print-address"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", daemon.stdout.readline().strip())
        yield str(path)
        daemon.terminate()


def test_the_screen_saver_is_inhibited_while_runs_are_made(home: Path, address: str) -> None:
    desktop = ScreenSaver(address)
    desktop.start()
    ran = run("bench", "-n", "1", "--", "true")
    assert ran.status == 0, ran.err
    assert desktop.asked == [("Inhibit", text("ktrial", "measurement")), ("UnInhibit", COOKIE)]
    (record,) = records(home)
    assert "idle" in record["session"]["held_off"]
    desktop.sender.shutdown(socket.SHUT_RDWR)
    desktop.join(10)
    desktop.bus.close()


def test_without_a_screen_saver_it_is_said(home: Path, address: str) -> None:
    ran = run("bench", "-n", "1", "--", "true")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    (note,) = [one for one in record["session"]["notes"] if one.startswith("the desktop was asked in vain")]
    assert "org.freedesktop.DBus.Error.NameHasNoOwner" in note or "ServiceUnknown" in note
