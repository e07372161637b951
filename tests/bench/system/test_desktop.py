# SPDX-License-Identifier: Apache-2.0
"""A desktop on a real session bus is asked not to lock while something is measured."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jeepney import HeaderFields, MessageType, message_bus, new_method_return
from jeepney.io.blocking import Proxy, open_dbus_connection

from tests.bench.system.test_bench import home, run
from tests.support.kept import records

__all__ = ["home"]
NAME = "org.freedesktop.ScreenSaver"
COOKIE = 4711


class ScreenSaver(threading.Thread):
    """Stands for the desktop: hands out one cookie, and writes down what it was asked for."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.asked: list[tuple[str, tuple[object, ...]]] = []
        self.bus = open_dbus_connection(f"unix:path={address}")
        assert Proxy(message_bus, self.bus).RequestName(NAME) == (1,)

    def run(self) -> None:
        while True:
            try:
                message = self.bus.receive(timeout=60)
            except OSError:
                return
            if message.header.message_type is not MessageType.method_call:
                continue
            member = message.header.fields[HeaderFields.member]
            self.asked.append((member, message.body))
            given = ("u", (COOKIE,)) if member == "Inhibit" else (None, ())
            self.bus.send(new_method_return(message, *given))


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
    assert desktop.asked == [("Inhibit", ("ktrial", "measurement")), ("UnInhibit", (COOKIE,))]
    (record,) = records(home)
    assert "idle" in record["session"]["held_off"]
    desktop.bus.sock.shutdown(socket.SHUT_RDWR)
    desktop.join(10)
    desktop.bus.close()


def test_without_a_screen_saver_it_is_said(home: Path, address: str) -> None:
    ran = run("bench", "-n", "1", "--", "true")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    (note,) = [one for one in record["session"]["notes"] if one.startswith("the desktop may still lock")]
    assert "org.freedesktop.DBus.Error.NameHasNoOwner" in note or "ServiceUnknown" in note
