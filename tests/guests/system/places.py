# SPDX-License-Identifier: Apache-2.0
"""Where the catalog's knobs live, read from its TOML files, and the lists of what was found there."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[3]
KNOBS = CHECKOUT / "src" / "ktrial" / "catalog" / "knobs"
PRESENCE = CHECKOUT / "tests" / "golden" / "presence"

# What a placeholder stands for, as a shell pattern.
PLACEHOLDERS = {
    "block": "*",
    "policy": "policy*",
    "irq": "[0-9]*",
    "cpu": "cpu[0-9]*",
    "nvme": "nvme*",
    "zram": "zram*",
    "interface": "*",
    "queue": "*",
    "slice": "*.slice",
    "device": "*",
    "node": "node*",
    "host": "host*",
    "state": "state*",
}


def knobs() -> list[dict[str, Any]]:
    """Every knob of the catalog as its TOML table."""
    tables: list[dict[str, Any]] = []
    for path in sorted(KNOBS.glob("*.toml")):
        tables += tomllib.loads(path.read_text(encoding="utf-8"))["knob"]
    return tables


def places(knob: dict[str, Any]) -> list[str]:
    """The knob's places with their placeholders; a sysctl without any has its own."""
    if "places" in knob:
        return list(knob["places"])
    if knob["kind"] == "sysctl":
        return ["/proc/sys/" + knob["id"].replace(".", "/")]
    return []


def pattern(place: str) -> str:
    """The shell pattern that finds the place's instances."""
    return re.sub(r"\{(\w+)\}", lambda found: PLACEHOLDERS[found[1]], place)


def is_instance(path: str, place: str) -> bool:
    """Whether `path` is an instance of `place`; a star stays within one component."""
    wanted, found = pattern(place).split("/"), path.split("/")
    return len(wanted) == len(found) and all(map(fnmatchcase, found, wanted))


def patterns() -> list[str]:
    """The patterns of all places of the catalog, sorted."""
    return sorted({pattern(place) for knob in knobs() for place in places(knob)})


def recorded(name: str) -> dict[str, str]:
    """The list `name` of `tests/golden/presence`: path found -> value seen."""
    lines = (PRESENCE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith("#"):
            path, value = line.split(" =", 1)
            found[path] = value.strip()
    return found


def lists() -> list[str]:
    """Names of all recorded lists."""
    return sorted(path.stem for path in PRESENCE.glob("*.txt"))
