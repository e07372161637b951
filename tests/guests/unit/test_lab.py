# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.guest_tools import GuestPlace, Job, Shape
from ktrial.guests import lab
from ktrial.guests.lab import Lab
from ktrial.guests.programs import GuestFiles
from ktrial.kernels.images.architectures import host_architecture
from ktrial.kernels.images.images import KernelFiles
from ktrial.kit.errors import BadInput

SHAPE = Shape(mode="emulated", memory_bytes=1 << 29, cpus=1)


class Guests:
    """Guests of one architecture that only remember what they were asked for."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.booted: list[tuple[KernelFiles, GuestFiles]] = []
        self.stopped = 0

    def why_no_kvm(self) -> str | None:
        return f"no KVM for {self.architecture}"

    def boot(self, kernel: KernelFiles, _job: Job, brought: GuestFiles, *_: object) -> str:
        self.booted.append((kernel, brought))
        return f"run on {self.architecture}"

    def stop(self) -> None:
        self.stopped += 1


class Images:
    """Kernels by their names."""

    @staticmethod
    def find(kernel: str) -> Any:
        return KernelFiles(kernel, f"/{kernel}/vmlinuz", kernel.encode())


@pytest.fixture
def guests() -> dict[str, Guests]:
    return {name: Guests(name) for name in ("x86_64", "aarch64")}


@pytest.fixture
def found(guests: dict[str, Guests]) -> Lab:
    def guests_for(kernel: KernelFiles) -> Any:
        return guests["aarch64" if b"arm" in kernel.image else "x86_64"]

    images: Any = Images()
    return Lab(images, guests_for)


def test_each_kernel_is_booted_by_guests_of_its_own_kind(found: Lab, guests: dict[str, Guests]) -> None:
    for kernel, architecture in (("pc", "x86_64"), ("arm", "aarch64"), ("pc", "x86_64")):
        place = GuestPlace(kernel=kernel, shape=SHAPE)
        found.prepare(place)
        run: Any = found.boot(place, Job(), {"/ktrial/loads": b"x"})
        assert run == f"run on {architecture}"
        assert found.why_no_kvm(kernel) == f"no KVM for {architecture}"
    assert [kernel.image for kernel, _ in guests["x86_64"].booted] == [b"pc", b"pc"]
    ((_, brought),) = guests["aarch64"].booted
    assert (brought.files, brought.architecture) == ({"/ktrial/loads": b"x"}, "aarch64")
    found.stop()
    assert {one.stopped for one in guests.values()} == {1}


def test_programs_are_brought_once_for_all_boots(
    found: Lab, guests: dict[str, Guests], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def bring(names: tuple[str, ...], architecture: str) -> GuestFiles:
        asked.append((names, architecture))
        return GuestFiles({"/usr/bin/tool": b"program"}, {"/usr/bin/link": "/usr/bin/tool"}, {}, architecture)

    monkeypatch.setattr(lab, "bring", bring)
    place = GuestPlace(kernel="pc", shape=SHAPE, tools=("/usr/bin/tool",))
    found.boot(place, Job(), {})
    found.boot(place, Job(), {"/own": b"1"})
    assert asked == [(("/usr/bin/tool",), "x86_64")]
    assert [set(brought.files) for _, brought in guests["x86_64"].booted] == [
        {"/usr/bin/tool"},
        {"/usr/bin/tool", "/own"},
    ]
    assert guests["x86_64"].booted[0][1].links == {"/usr/bin/link": "/usr/bin/tool"}


def test_programs_of_a_pc_are_refused_in_a_guest_of_another_kind(found: Lab) -> None:
    place = GuestPlace(kernel="arm", shape=SHAPE, tools=(str(Path("/bin/sh").resolve()),))
    with pytest.raises(BadInput, match="the guest is aarch64"):
        found.prepare(place)


def test_programs_of_this_machine_run_in_guests_like_it_and_lie_where_they_are_told(
    found: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktrial.guests.lab.host_architecture", lambda: "x86_64")
    assert (found.runs_programs("here"), found.runs_programs("arm")) == (True, False)
    brought = GuestFiles({}, {}, {"hackbench": "/usr/bin/hackbench", "/opt/bin/own": "/opt/bin/own"})
    monkeypatch.setattr("ktrial.guests.lab.bring", lambda *_: brought)
    place = GuestPlace(kernel="here", shape=SHAPE, tools=("hackbench", "/opt/bin/own"))
    assert found.tools_in(place) == {"hackbench": "/usr/bin/hackbench", "own": "/opt/bin/own"}


def test_programs_that_set_swap_up_are_brought_where_they_are_and_run(
    found: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"mkswap": "/usr/sbin/mkswap", "swapon": "/sbin/swapon"}
    monkeypatch.setattr("shutil.which", lambda name, path: here.get(name) if "/usr/sbin" in path else None)
    own, other = ("arm", "pc") if host_architecture() == "aarch64" else ("pc", "arm")
    assert found.swap_programs(own) == ("/usr/sbin/mkswap", "/sbin/swapon")
    assert found.swap_programs(other) == ()


def test_with_the_programs_of_swap_come_zram_and_its_algorithms(found: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, ...]] = []

    def take(_names: object, _image: object, wanted: tuple[str, ...]) -> dict[str, bytes]:
        noted.append(wanted)
        return {}

    monkeypatch.setattr("ktrial.guests.lab.bring", lambda *_: GuestFiles({}, {}, {}))
    monkeypatch.setattr("ktrial.guests.lab.take_modules", take)
    for tools in (("/usr/bin/hackbench",), ("/usr/sbin/mkswap",)):
        found.prepare(GuestPlace(kernel="here", shape=SHAPE, tools=tools))
    assert noted == [(), ("lzo", "lzo_rle", "lz4", "zstd", "zram")]
