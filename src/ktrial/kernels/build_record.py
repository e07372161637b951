# SPDX-License-Identifier: Apache-2.0
"""The record of a kernel built here: its sources, tools and cost, and the properties read from the built image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.kernels.identity import KernelIdentity
from ktrial.kernels.source import KernelSource
from ktrial.kernels.uarch.targets import CompilerKind

PackageKind = Literal["deb", "rpm", "pacman", "tar"]
#: Objects per enabled symbol, measured on a small kernel with 980 symbols and 1780 objects.
_OBJECTS_EACH = 1.8
_OBJECT_BYTES, _DEBUG_FACTOR, _LEAST_BYTES = 180_000, 5, 200 << 20
_GIB = 1 << 30


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """A compiler with its tools; `variables` are the make variables that name the programs."""

    kind: CompilerKind
    variables: Mapping[str, str]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the toolchain. `said` is the version line it printed; `minimum` is the version the tree requires."""

    role: str
    program: str
    version: str
    said: str
    minimum: str | None


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags with which an object was compiled: the last -march and -O in the command that kbuild saved."""

    object: str
    march: str | None
    optimise: str | None
    compiler: str


class BuildCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a build. `hits` and `misses` are the counts of the compiler cache, null without a cache."""

    wall_s: float
    cpu_s: float
    objects: int
    hits: int | None
    misses: int | None


class Package(msgspec.Struct, frozen=True):
    """A package that the build produced."""

    path: str
    sha256: str


class KernelMade(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ktrial built, `ktrial.kernel-build/1`. `make` holds variables on make's command line."""

    folder: str
    image: str
    image_sha256: str
    source: KernelSource
    architecture: str
    base: str
    fragments: tuple[str, ...]
    config_sha256: str
    tools: tuple[Tool, ...]
    make: Mapping[str, str]
    environment: Mapping[str, str]
    flags: Flags | None
    identity: KernelIdentity
    cost: BuildCost
    packages: tuple[Package, ...] = ()
    ended_unix_ms: int = 0
    schema: str = "ktrial.kernel-build/1"


def objects_of(symbols: Mapping[str, str]) -> int:
    return round(_OBJECTS_EACH * sum(value in ("y", "m") for value in symbols.values()))


def room_of(symbols: Mapping[str, str]) -> int:
    factor = _DEBUG_FACTOR if symbols.get("DEBUG_INFO") == "y" else 1
    return _LEAST_BYTES + objects_of(symbols) * _OBJECT_BYTES * factor


def memory_of(symbols: Mapping[str, str], jobs: int) -> tuple[int, str]:
    """Return the estimated memory in bytes that a build needs, and the step that needs the most."""
    size = max(1, objects_of(symbols) // 5000)
    if symbols.get("LTO_CLANG_FULL") == "y":
        return (4 + 4 * size) * _GIB, "linking with full LTO"
    if symbols.get("LTO_CLANG_THIN") == "y":
        return (2 + 2 * size) * _GIB, "linking with ThinLTO"
    if symbols.get("DEBUG_INFO_BTF") == "y":
        return (1 + size) * _GIB, "making BTF"
    return _GIB // 4 * (jobs + 2), f"running {jobs} compilers at a time"
