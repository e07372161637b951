# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ktrial.bench.guest_tools import Job, Shape
from ktrial.guests.boot import BootLimits, Guests
from ktrial.guests.programs import GuestFiles
from ktrial.guests.shape import guest_shape
from ktrial.kernels.images.architectures import X86_64
from ktrial.kernels.images.images import KernelFiles
from ktrial.kit.errors import BadInput
from tests.support import kernels


def boot(tmp_path: Path, image: bytes, memory_bytes: int, files: dict[str, bytes]) -> Any:
    """A boot that does not come as far as the emulator."""
    (tmp_path / "agent").write_bytes(b"agent")
    guests = Guests(cast("Any", SimpleNamespace(machine=X86_64)), tmp_path / "agent", tmp_path)
    shape = Shape(mode="emulated", memory_bytes=memory_bytes, cpus=1)
    return guests.boot(KernelFiles("k", "k", image), Job(), GuestFiles(files, {}, {}), shape, BootLimits(1))


def test_a_kernel_for_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="k: cannot boot a kernel for aarch64 in a guest for x86_64"):
        boot(tmp_path, kernels.elf({}, machine=183), 1 << 30, {})


def test_more_than_the_guests_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a guest needs twice the size of its files, which take 3 MiB") as caught:
        boot(tmp_path, kernels.image(), 4 << 20, {"/bin/large": b"x" * (3 << 20)})
    assert caught.value.hint == "give the guest at least 7MiB of memory"


def test_memory_without_a_unit_is_in_bytes() -> None:
    with pytest.raises(BadInput, match="--memory 512: a number without a unit is in bytes") as caught:
        guest_shape("512", None, (), None)
    assert caught.value.hint == "add a unit, such as MiB"
