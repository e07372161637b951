# SPDX-License-Identifier: Apache-2.0
"""Guests as hosts: what a word names, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial.bench.guest_tools import GuestFailed, GuestPlace, GuestTools, Mode
from ktrial.cli.app_guest import GuestHost, boot_to_talk
from ktrial.cli.exact_host import host_of
from ktrial.cli.hosts import again, as_before
from ktrial.guests.kept_guest import Keeper
from ktrial.kit.errors import BadInput, UnknownName


class NoKernel:
    """Knows one kernel, and boots none."""

    def __init__(self) -> None:
        self.lab = self

    def why_no_kvm(self, kernel: str) -> str | None:
        raise UnknownName("installed kernel", kernel, ["6.12.7-test"], hint="give a path")

    runs_programs = why_no_kvm


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def host(word: str) -> GuestHost:
    kernels: Any = NoKernel()
    return GuestHost(word, lambda: kernels, lambda _: None)


def test_a_word_that_is_neither_a_guest_nor_a_kernel() -> None:
    with pytest.raises(BadInput, match="no kept guest has this name; unknown installed kernel") as caught:
        host("guest:lab").connect("user")
    assert caught.value.hint == "start a guest with `ktrial kernel boot KERNEL --keep lab`"
    keeper = Keeper("other")
    with pytest.raises(BadInput) as caught:
        host("guest:6.12.7-tset").connect("user")
    assert caught.value.hint == "did you mean 6.12.7-test? (kept guests: other)"
    keeper.close()


@pytest.mark.parametrize("word", ["guest:", "exact:", "usb:x", "guest", "ssh"])
def test_what_is_no_host(word: str) -> None:
    kernels: Any = NoKernel()
    with pytest.raises(BadInput, match="not supported"):
        host_of(word, lambda: kernels, lambda _: None)


class Booting:
    """Boots guests in memory, and keeps what they were asked for."""

    def __init__(self, *, runs: bool = True) -> None:
        self.lab = self
        self.places: list[GuestPlace] = []
        self.no_kvm: str | None = "there is none"
        #: Modes in which the kernel does not come to its first process.
        self.hangs: set[Mode] = set()
        self._runs = runs

    def why_no_kvm(self, _: str) -> str | None:
        return self.no_kvm

    def runs_programs(self, _: str) -> bool:
        return self._runs

    def swap_programs(self, _: str) -> tuple[str, ...]:
        return ("/usr/sbin/mkswap",) if self._runs else ()

    def can_have_disk(self, _: str) -> bool:
        return False

    def talk(self, place: GuestPlace) -> Any:
        self.places.append(place)
        if place.shape.mode in self.hangs:
            raise GuestFailed("the time limit passed", 124)
        return SimpleNamespace(begun=SimpleNamespace(release="6.12.7-test"))

    @staticmethod
    def tools_in(_: GuestPlace) -> dict[str, str]:
        return {}

    @staticmethod
    def transport_to(*_: object) -> None:
        return None


PROGRAMS = {"hackbench": "/usr/bin/hackbench", "schbench": "/var/lib/tools/schbench", "fio": None}


def test_a_guest_that_boots_for_a_command_has_the_programs_that_are_here() -> None:
    kernels: Any = Booting()
    booted = GuestHost("guest:running", lambda: kernels, lambda _: None)
    booted.give(PROGRAMS)
    assert booted.tools() == GuestTools(
        places={"hackbench": "/usr/bin/hackbench", "schbench": "/usr/bin/schbench"}, found=PROGRAMS
    )
    booted.connect("user")
    helpers = ("mktemp", "cat", "rm")
    assert kernels.places[0].tools == ("/usr/bin/hackbench", "/var/lib/tools/schbench", "/usr/sbin/mkswap", *helpers)
    booted.give({"stress-ng": "/usr/bin/stress-ng"})
    assert "stress-ng" not in booted.tools().found


def test_a_guest_of_another_architecture_is_given_nothing() -> None:
    kernels: Any = Booting(runs=False)
    booted = GuestHost("guest:running", lambda: kernels, lambda _: None)
    booted.give(PROGRAMS)
    booted.connect("user")
    assert kernels.places[0].tools == ()
    assert booted.tools() == GuestTools(places={}, found=PROGRAMS, foreign=True)


def test_what_is_said_of_the_host() -> None:
    booted = host("guest:running")
    assert (again(None), again(booted)) == ("ktrial", "ktrial --host guest:running")
    assert as_before(None) == "all settings have been restored (check with `ktrial status`)"
    assert as_before(booted) == "the guest and its settings end with this command"


def test_a_kernel_that_hangs_with_kvm_is_emulated() -> None:
    lab: Any = Booting()
    lab.no_kvm = None
    assert boot_to_talk(lab, "running").mode == "kvm"
    lab.hangs = {"kvm"}
    assert boot_to_talk(lab, "running").mode == "emulated"
    kvm, again = lab.places[-2:]
    assert (kvm.shape.mode, again.shape.mode) == ("kvm", "emulated")
    assert kvm.limit_s < again.limit_s
    with pytest.raises(GuestFailed):
        boot_to_talk(lab, "running", "kvm")
