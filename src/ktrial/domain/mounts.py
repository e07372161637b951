# SPDX-License-Identifier: Apache-2.0
"""Which mounts of a machine are read-only, by the text of /proc/self/mounts."""

from __future__ import annotations

from collections.abc import Mapping

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
    """The mount that holds `path` when it is read-only; None when it can be written."""
    above = [point for point in options if path == point or path.startswith(point.rstrip("/") + "/")]
    nearest = max(above, key=len, default=None)
    return nearest if nearest is not None and "ro" in options[nearest] else None
