# SPDX-License-Identifier: Apache-2.0
"""Sessions with a guest that another process keeps, over its socket; the guest is one of pipes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from ktrial.agent.carrier import CarriedTransport, Ends
from ktrial.bench.guest_tools import KeptProgram, ProgramPast
from ktrial.guests import kept_guest as kept
from ktrial.guests.kept_guest import Keeper, KeptGuest, check_name, kept_names
from ktrial.kit.errors import AgentError, BadInput, Busy, KtrialError

WHAT = KeptProgram(kernel="running", release="6.12.7-test", mode="emulated")


class Guest:
    """Answers what a session says in capitals."""

    def __init__(self) -> None:
        self.gone: str | None = None
        self.asked: list[tuple[list[str], bool]] = []
        self.killed: list[int] = []
        self.over: list[int] = []

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        if arguments == ["fail"]:
            raise AgentError("lost", "the guest has ended")
        self.asked.append((arguments, root))
        here, to_agent = os.pipe()
        from_agent, there = os.pipe()
        number = len(self.asked)
        Thread(target=self._answer, args=(number, here, there), daemon=True).start()
        return Ends(to_agent, from_agent, number)

    def _answer(self, number: int, here: int, there: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            while piece := os.read(here, 100):
                os.write(there, piece.upper())
        self.over.append(number)
        os.close(here)
        os.close(there)

    def kill(self, session: int) -> None:
        self.killed.append(session)

    def why_gone(self) -> str | None:
        return self.gone

    def close(self) -> None:
        """Nothing to let go of."""


class Calls:
    """Waits as `Interrupts` does, until it is to stop."""

    def __init__(self) -> None:
        self.stop = Event()

    def wait(self, descriptors: list[int], _limit_s: float) -> bool:
        if self.stop.is_set():
            raise KeyboardInterrupt
        import select

        return bool(select.select(descriptors, [], [], 0.01)[0])


class House:
    """A keeper in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.guest = Guest()
        self._calls = Calls()
        self.keeper = Keeper(name)
        self.told: str | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self.told = self.keeper.serve(self.guest, WHAT, self._calls, None)  # type: ignore[arg-type]
        self.keeper.close()

    def end(self) -> None:
        self._calls.stop.set()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def wait_for_end(self) -> None:
        self._thread.join(5)
        assert not self._thread.is_alive()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sockets whose path is longer than an address of one may be."""
    run = tmp_path / ("long" * 30)
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    return run / "ktrial-guests"


@pytest.fixture
def house() -> Iterator[House]:
    made = House("lab")
    yield made
    made.end()


def until(happens: object) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + 5
    while not happens():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_command_talks_to_agents_in_a_guest_that_goes_on(house: House, place: Path) -> None:
    assert (place.stat().st_mode & 0o777, kept_names()) == (0o700, ("lab",))
    for number in (1, 2):
        guest = KeptGuest("lab")
        assert guest.kept == WHAT
        ends = guest.open(["serve"], root=number == 1)
        transport = CarriedTransport(ends.to_agent, ends.from_agent, lambda: None, guest.why_gone)
        transport.send(b"hello\n")
        assert transport.receive(5) == b"HELLO\n"
        transport.close()
        guest.close()
        until(lambda: house.keeper._command is None)
    assert house.guest.asked == [(["serve"], True), (["serve"], False)]
    assert house.guest.over == [1, 2]


def test_one_command_at_a_time_and_the_other_is_told_whose_turn_it_is(house: House) -> None:
    first = KeptGuest("lab")
    with pytest.raises(Busy, match=f"the guest lab is in use: process {os.getpid()}"):
        KeptGuest("lab")
    first.open(["serve"], root=True)
    first.close()
    until(lambda: house.keeper._command is None)
    KeptGuest("lab").close()


def test_a_command_that_is_killed_ends_its_sessions(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "PATIENCE_S", 0.05)
    code = (
        "import os, signal; from ktrial.guests.kept_guest import KeptGuest; "
        "KeptGuest('lab').open(['serve'], root=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ))
    assert done.returncode == -9
    until(lambda: house.guest.over == [1])
    until(lambda: house.guest.killed == [1])  # in the guest it may hang
    KeptGuest("lab").close()


def test_what_was_said_to_an_exact_guest_is_kept_from_command_to_command(house: House) -> None:
    for number in range(3):
        guest = KeptGuest("lab")
        assert guest.past == ProgramPast(script=b"x" * number, said={1: (b"y\n",)} if number else {})
        # More than a packet takes.
        guest.keep(ProgramPast(script=b"x" * (1 << 20), said={}))
        guest.keep(ProgramPast(script=b"x" * (number + 1), said={1: (b"y\n",)}))
        guest.close()


def test_what_a_keeper_of_another_version_keeps_is_not_taken(house: House) -> None:
    guest = KeptGuest("lab")
    descriptor = os.memfd_create("other")
    os.write(descriptor, b"other")
    socket.send_fds(guest._connection, [b'{"past":true}'], [descriptor])
    os.close(descriptor)
    guest._receive()
    guest.close()
    with pytest.raises(KtrialError, match="belongs to another version of ktrial"):
        KeptGuest("lab")


def test_only_sessions_of_its_own_are_killed_by_a_command(house: House) -> None:
    guest = KeptGuest("lab")
    ends = guest.open(["serve"], root=False)
    guest.kill(7)
    guest.kill(ends.session)
    until(lambda: house.guest.killed == [ends.session])
    guest.close()


def test_what_became_of_the_guest_is_told(house: House) -> None:
    guest = KeptGuest("lab")
    ends = guest.open(["serve"], root=False)
    transport = CarriedTransport(ends.to_agent, ends.from_agent, lambda: None, guest.why_gone)
    house.guest.gone = "the guest has ended; last lines of its console: panic"
    house.wait_for_end()
    assert house.told == house.guest.gone
    os.close(os.dup(ends.to_agent))
    with pytest.raises(AgentError, match="last lines of its console: panic") as caught:
        guest.open(["serve"], root=False)
    assert caught.value.kind == "lost"
    assert "--keep lab …` again" in (caught.value.hint or "")
    assert guest.why_gone() == house.guest.gone
    transport.abandon()
    guest.close()
    with pytest.raises(FileNotFoundError):
        KeptGuest("lab")


def test_a_guest_that_opens_nothing_is_told_as_gone(house: House) -> None:
    guest = KeptGuest("lab")
    with pytest.raises(AgentError, match="the guest has ended"):
        guest.open(["fail"], root=True)
    guest.close()


def test_a_keeper_that_was_killed_leaves_a_socket_that_is_told_and_replaced(place: Path) -> None:
    place.mkdir(mode=0o700)
    left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here = Path.cwd()
    os.chdir(place)
    try:
        left.bind("lab")
    finally:
        os.chdir(here)
    left.close()
    with pytest.raises(AgentError, match="the guest lab has ended"):
        KeptGuest("lab")
    Keeper("lab").close()
    assert kept_names() == ()


def test_two_guests_have_two_names(house: House) -> None:
    with pytest.raises(Busy, match=f"a guest named lab already exists: process {os.getpid()}"):
        Keeper("lab")
    Keeper("other").close()
    assert kept_names() == ("lab",)


@pytest.mark.parametrize("packet", [b"nonsense", b"[]", b'{"open": 1}', b'{"kill": "x"}'])
def test_what_is_not_of_the_protocol_ends_the_connection(house: House, place: Path, packet: bytes) -> None:
    guest = KeptGuest("lab")
    guest._connection.send(packet)
    with pytest.raises(AgentError, match="`ktrial kernel boot --keep lab` has ended"):
        guest.open(["serve"], root=False)
    guest.close()
    KeptGuest("lab").close()


def test_a_folder_that_others_may_write_is_not_used(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    for uses in (Keeper, KeptGuest):
        with pytest.raises(KtrialError, match=r"is not private: owner .*, mode 777"):
            uses("lab")


def test_a_folder_that_is_a_link_is_not_used(place: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="ktrial-guests"):
        Keeper("lab")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "-x", "ä", "a b", "x" * 41, "x\n"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid guest name"):
        check_name(name)
