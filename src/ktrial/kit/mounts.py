# SPDX-License-Identifier: Apache-2.0
"""What is mounted where, by the text of /proc/self/mounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The file that lists them.
MOUNTS = "/proc/self/mounts"


def mount_options(text: str) -> dict[str, tuple[str, ...]]:
    """Mount point -> options; of several mounts on one point the last is in force."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            found[fields[1].replace("\\040", " ")] = tuple(fields[3].split(","))
    return found


def read_only_mount(path: str, options: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the mount that holds `path` when it is read-only; None when it can be written."""
    nearest = _nearest(path, options)
    return nearest if nearest is not None and "ro" in options[nearest] else None


def file_system(path: str, text: str) -> str | None:
    """Return the type of the file system that holds `path`; None when no mount does."""
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            kinds[fields[1].replace("\\040", " ")] = fields[2]
    nearest = _nearest(path, kinds)
    return kinds[nearest] if nearest is not None else None


def device_of(path: str, text: str) -> str | None:
    """Return what is mounted where `path` lies, `/dev/vda1`; None when no mount holds it."""
    devices: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            devices[fields[1].replace("\\040", " ")] = fields[0]
    nearest = _nearest(path, devices)
    return devices[nearest] if nearest is not None else None


def _nearest(path: str, points: Iterable[str]) -> str | None:
    """Return the mount point that holds `path`."""
    above = [point for point in points if path == point or path.startswith(point.rstrip("/") + "/")]
    return max(above, key=len, default=None)
