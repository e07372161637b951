# SPDX-License-Identifier: Apache-2.0
"""scx_loader on a real bus: its schedulers are listed without starting it, and its calls start and stop one."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jeepney import HeaderFields, MessageType, message_bus, new_method_return
from jeepney.io.blocking import Proxy, open_dbus_connection

from ktrial.bench.around.session_bus import BusError
from ktrial.bench.around.system_bus import LOADER, loader_schedulers
from ktrial.cli.shared.arm_commands import loader_commands
from ktrial.trial.protocol.file import SchedExtFile


class Loader(threading.Thread):
    """Stands for scx_loader: writes down its calls, and knows two schedulers."""

    def __init__(self, address: str, *, signature: str = "as") -> None:
        super().__init__(daemon=True)
        self.asked: list[tuple[str, tuple[object, ...]]] = []
        self.bus = open_dbus_connection(address)
        self.value = (signature, ["scx_lavd", "scx_rusty"] if signature == "as" else "unknown")
        assert Proxy(message_bus, self.bus).RequestName(LOADER) == (1,)

    def run(self) -> None:
        with self.bus:
            self._answer()

    def _answer(self) -> None:
        while True:
            try:
                message = self.bus.receive(timeout=60)
            except OSError:
                return
            if message.header.message_type is not MessageType.method_call:
                continue
            member = message.header.fields[HeaderFields.member]
            self.asked.append((member, message.body))
            self.bus.send(new_method_return(message, *(("v", (self.value,)) if member == "Get" else (None, ()))))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A bus of the test's own."""
    place = f"unix:path={tmp_path / 'bus'}"
    argv = ["dbus-daemon", "--session", "--nofork", f"--address={place}", "--print-address"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        yield place
        daemon.terminate()


def test_it_lists_its_schedulers_and_starts_one_in_a_mode(address: str) -> None:
    there = {"DBUS_SYSTEM_BUS_ADDRESS": address}
    with pytest.raises(BusError, match=r"org\.scx\.Loader"):
        loader_schedulers(there)
    loader = Loader(address)
    loader.start()
    assert loader_schedulers(there) == ("scx_lavd", "scx_rusty")
    assert loader_commands(SchedExtFile(run=("scx_lavd",))) == ()
    (command,) = loader_commands(SchedExtFile(run=("scx_lavd",), mode="powersave"))
    for argv in (command.run, command.undo):
        subprocess.run([argv[0], f"--address={address}", *argv[1:]], check=True, timeout=30)
    assert loader.asked[1:] == [("StartScheduler", ("scx_lavd", 2)), ("StopScheduler", ())]


def test_an_answer_that_is_no_list_is_an_error(address: str) -> None:
    Loader(address, signature="s").start()
    with pytest.raises(BusError, match="no list of schedulers"):
        loader_schedulers({"DBUS_SYSTEM_BUS_ADDRESS": address})
    with pytest.raises(BusError, match="system bus: "):
        loader_schedulers({"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"})
