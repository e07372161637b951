# SPDX-License-Identifier: Apache-2.0
"""Look-ups in the text of /proc/self/mounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOUNTS = "/proc/self/mounts"


def _column(text: str, number: int) -> dict[str, str]:
    """Return one column by mount point; if a point has several mounts, the last one counts."""
    rows = [fields for line in text.splitlines() if len(fields := line.split()) >= 4]
    return {fields[1].replace("\\040", " "): fields[number] for fields in rows}


def mount_options(text: str) -> dict[str, tuple[str, ...]]:
    """Return the options of each mount point; if a point has several mounts, the last one counts."""
    return {point: tuple(options.split(",")) for point, options in _column(text, 3).items()}


def read_only_mount(path: str, options: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the mount that holds `path` if it is read-only; None if it is writable."""
    nearest = _nearest(path, options)
    return nearest if nearest is not None and "ro" in options[nearest] else None


def file_system(path: str, text: str) -> str | None:
    """Return the type of the file system that holds `path`; None if no mount holds it."""
    kinds = _column(text, 2)
    nearest = _nearest(path, kinds)
    return kinds[nearest] if nearest is not None else None


def device_of(path: str, text: str) -> str | None:
    """Return the device, such as `/dev/vda1`, of the mount that holds `path`; None if no mount holds it."""
    devices = _column(text, 0)
    nearest = _nearest(path, devices)
    return devices[nearest] if nearest is not None else None


def _nearest(path: str, points: Iterable[str]) -> str | None:
    """Return the mount point that holds `path`."""
    above = [point for point in points if path == point or path.startswith(point.rstrip("/") + "/")]
    return max(above, key=len, default=None)
