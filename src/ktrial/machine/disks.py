# SPDX-License-Identifier: Apache-2.0
"""The disks behind a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_SYSTEM = Path("/sys")


def disk_of(folder: Path, system: Path = _SYSTEM) -> str | None:
    """Return the kernel's name of the whole disk that holds a folder; None without a block device."""
    device = _device(folder, system)
    return None if device is None else _whole(device).name


def disks_of(path: Path, system: Path = _SYSTEM) -> frozenset[str]:
    """Return all physical disks below a folder, file or block device, also through encryption or striping."""
    device = _device(path, system)
    return frozenset() if device is None else _below(_whole(device))


def _device(path: Path, system: Path) -> Path | None:
    try:
        found = path.stat()
        number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
        return (system / "dev/block" / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return None


def _whole(device: Path) -> Path:
    return device.parent if (device / "partition").exists() else device


def _below(device: Path) -> frozenset[str]:
    slaves = device / "slaves"
    below = [one.resolve() for one in slaves.iterdir()] if slaves.is_dir() else []
    if not below:
        return frozenset((device.name,))
    return frozenset().union(*(_below(_whole(one)) for one in below))
