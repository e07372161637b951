# SPDX-License-Identifier: Apache-2.0
"""The disk that a folder lies on."""

from __future__ import annotations

import os
from pathlib import Path


def disk_of(folder: Path, system: Path = Path("/sys")) -> str | None:
    """The kernel's name of it, that of the whole disk for a partition; None where no block device is behind it."""
    try:
        number = folder.stat().st_dev
        device = (system / "dev/block" / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return None
    return device.parent.name if (device / "partition").exists() else device.name
