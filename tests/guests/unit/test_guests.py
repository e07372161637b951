# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ktrial.bench.guest_tools import GuestDiffers, GuestRun, GuestStart, ProgramEnded, Shape
from ktrial.guests.agreement import boot_in, boot_twice, difference, digest, settle_s
from ktrial.kit.errors import KtrialError

SHAPE = Shape(mode="emulated", memory_bytes=1 << 30, cpus=1)
BEGUN = GuestStart(
    release="6.12", version="#1", architecture="x86_64", command_line="quiet", uptime_s=1.5, cpus=1, memory_bytes=1
)
RUN = GuestRun(
    shape=SHAPE,
    emulator="QEMU 7.2",
    begun=BEGUN,
    ended=ProgramEnded(status=0),
    stdout=b"one\ntwo\n",
    stderr=b"",
    console=b"[ 0.0] x\n",
    wall_s=1.0,
)


def run(**more: Any) -> GuestRun:
    return msgspec.structs.replace(RUN, **more)


class Boots:
    """Gives these runs in turn, and keeps what was asked for."""

    def __init__(self, *runs: GuestRun) -> None:
        self._runs: Iterator[GuestRun] = iter(runs)
        self.asked: list[tuple[str, float, float | None]] = []

    def __call__(self, shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
        self.asked.append((shape.mode, limit_s, begin_limit_s))
        return next(self._runs)


class House:
    """What runs guests: with KVM, or why not."""

    def __init__(self, why: str | None = None) -> None:
        self._why = why
        self.stopped = False

    def why_no_kvm(self) -> str | None:
        return self._why

    def stop(self) -> None:
        self.stopped = True


def test_an_interrupt_of_one_exact_run_ends_the_other() -> None:
    house = House()

    def interrupted(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        boot_twice(SHAPE, 60, interrupted, house)
    assert house.stopped


def test_two_exact_runs_that_are_the_same() -> None:
    found = boot_twice(SHAPE, 60, Boots(RUN, run(wall_s=9.0)), House())
    assert (found.twin_sha256, found.odd) == (digest(RUN), None)


@pytest.mark.parametrize(
    "other, where",
    [
        (run(stdout=b"one\nthree\n"), "line 2 of stdout is 'two' in one run and 'three' in another"),
        (run(stdout=b"one\n"), "line 2 of stdout is 'two' in one run and missing in another"),
        (run(console=b""), "line 1 of the console is '[ 0.0] x' in one run and missing in another"),
        (
            run(ended=ProgramEnded(status=1)),
            "the report of the program's end is status 0 in one run and status 1 in another",
        ),
        (
            run(begun=msgspec.structs.replace(BEGUN, uptime_s=1.51)),
            "the report of the guest's start is uptime_s 1.5 in one run and uptime_s 1.51 in another",
        ),
        (run(begun=None), "the report of the guest's start is {"),
        (
            run(failure="the kernel panicked"),
            "the failure of the guest is missing in one run and 'the kernel panicked' in another",
        ),
    ],
    ids=["line", "missing", "console", "status", "time", "no-start", "failure"],
)
def test_the_first_difference_is_an_error(other: GuestRun, where: str) -> None:
    assert digest(other) != digest(RUN)
    assert str(difference(RUN, other)).startswith(where)
    with pytest.raises(GuestDiffers, match="three runs of the same exact guest differ") as caught:
        boot_twice(SHAPE, 60, Boots(RUN, other, run(stderr=b"a third\n")), House())
    assert caught.value.exit_status == 125
    for third, agreed in ((RUN, RUN), (other, other)):
        found = boot_twice(SHAPE, 60, Boots(RUN, other, third), House())
        assert (found.run, found.twin_sha256) == (agreed, digest(agreed))
        assert str(found.odd).startswith(where)


def test_of_long_lines_what_differs_is_shown() -> None:
    one, other = (b"a" * 5000 + word + b"b" * 5000 + b"\n" for word in (b"this", b"that"))
    told = str(difference(run(said=one), run(said=other)))
    assert len(told) < 600
    assert f"is '…{'a' * 98}thisb" in told
    assert f"and '…{'a' * 98}thatb" in told


def test_a_limit_that_passed_is_no_difference() -> None:
    late = run(failure="the time limit of 1 s passed", limit_passed=True, stdout=b"")
    found = boot_twice(SHAPE, 1, Boots(RUN, late), House())
    assert (found.run.exit_status, found.twin_sha256) == (124, None)


def test_kvm_where_it_works() -> None:
    boots = Boots(RUN)
    assert boot_in(None, SHAPE, 60, boots, House()).no_kvm is None
    assert boots.asked == [("kvm", 60, 20)]


def test_without_kvm_it_is_emulated_and_said() -> None:
    boots = Boots(RUN)
    assert boot_in(None, SHAPE, 60, boots, House("there is no /dev/kvm")).no_kvm == "there is no /dev/kvm"
    assert boots.asked == [("emulated", 60, None)]
    with pytest.raises(KtrialError, match="cannot use KVM: there is no"):
        boot_in("kvm", SHAPE, 60, Boots(), House("there is no /dev/kvm"))


def test_a_kernel_that_does_not_start_under_kvm_is_emulated() -> None:
    boots = Boots(run(begun=None, ended=None, failure="the time limit of 20 s passed"), RUN)
    found = boot_in(None, SHAPE, 60, boots, House())
    assert boots.asked == [("kvm", 60, 20), ("emulated", 60, None)]
    assert "works, but not with this kernel (the time limit" in str(found.no_kvm)


@pytest.mark.parametrize(
    "ended, status",
    [
        (ProgramEnded(status=7), 7),
        (ProgramEnded(signal=9), 137),
        (ProgramEnded(unstarted="No such file", errno=2), 127),
        (ProgramEnded(unstarted="Permission denied", errno=13), 126),
        (ProgramEnded(unknown="?"), 125),
        (None, 0),
    ],
)
def test_exit_statuses(ended: ProgramEnded | None, status: int) -> None:
    assert run(ended=ended).exit_status == status
    assert run(ended=ended, failure="the kernel panicked").exit_status == 125


def test_exact_guests_settle() -> None:
    assert [settle_s(mode) for mode in ("exact", "emulated", None)] == [12, 0, 0]
