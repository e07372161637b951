# SPDX-License-Identifier: Apache-2.0
"""Guests as hosts: what a word names, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.host_wiring import GuestHost, again, as_before
from ktrial.domain.errors import BadInput, UnknownName
from ktrial.host.kept_guest import Keeper


class NoKernel:
    """Knows one kernel, and boots none."""

    def __init__(self) -> None:
        self.lab = self

    def why_no_kvm(self, kernel: str) -> str | None:
        raise UnknownName("installed kernel", kernel, ["6.12.7-test"], hint="give a path")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def host(word: str) -> GuestHost:
    kernels: Any = NoKernel()
    return GuestHost(word, lambda: kernels, lambda _: None)


def test_a_word_that_is_neither_a_guest_nor_a_kernel() -> None:
    with pytest.raises(BadInput, match="no guest is kept under this name, and no installed kernel is") as caught:
        host("guest:lab").connect("user")
    assert caught.value.hint == "`ktrial kernel boot KERNEL --keep lab` keeps one"
    keeper = Keeper("other")
    with pytest.raises(BadInput) as caught:
        host("guest:6.12.7-tset").connect("user")
    assert caught.value.hint == "did you mean 6.12.7-test?; kept are: other"
    keeper.close()


@pytest.mark.parametrize("word", ["guest:", "ssh:x", "guest"])
def test_what_is_no_host(word: str) -> None:
    with pytest.raises(BadInput, match="no host that ktrial reaches"):
        host(word)


def test_what_is_said_of_the_host() -> None:
    booted = host("guest:running")
    assert (again(None), again(booted)) == ("ktrial", "ktrial --host guest:running")
    assert as_before(None) == "the machine is as before: `ktrial status`"
    assert as_before(booted) == "the guest ends with this command, and all that was set in it"
