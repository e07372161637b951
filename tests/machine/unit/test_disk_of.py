# SPDX-License-Identifier: Apache-2.0
"""The disk behind a folder."""

from __future__ import annotations

import os
from pathlib import Path

from ktrial.machine.disks import disk_of, disks_of


def machine(folder: Path, device: str) -> Path:
    """A /sys in which what holds the folder is that device."""
    number = folder.stat().st_dev
    (folder / "sys/devices" / device).mkdir(parents=True)
    link = folder / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder / "sys/devices" / device)
    return folder / "sys"


def test_a_partition_lies_on_its_disk(tmp_path: Path) -> None:
    system = machine(tmp_path, "block/nvme0n1/nvme0n1p2")
    (system / "devices/block/nvme0n1/nvme0n1p2/partition").touch()
    assert disk_of(tmp_path, system) == "nvme0n1"


def test_a_whole_disk_is_itself_and_nothing_is_behind_a_tmpfs(tmp_path: Path) -> None:
    assert disk_of(tmp_path, machine(tmp_path, "block/sda")) == "sda"
    assert disk_of(tmp_path, tmp_path / "nothing") is None
    assert disk_of(tmp_path / "not there") is None


def test_below_an_encrypted_disk_is_the_real_one(tmp_path: Path) -> None:
    system = machine(tmp_path, "virtual/block/dm-1")
    assert disks_of(tmp_path, system) == {"dm-1"}
    part = system / "devices/block/sda/sda3"
    part.mkdir(parents=True)
    (part / "partition").touch()
    (system / "devices/virtual/block/dm-1/slaves").mkdir()
    (system / "devices/virtual/block/dm-1/slaves/sda3").symlink_to(part)
    assert disks_of(tmp_path, system) == {"sda"}
    assert disk_of(tmp_path, system) == "dm-1"
    assert disks_of(tmp_path / "not there", system) == frozenset()
