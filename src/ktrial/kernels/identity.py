# SPDX-License-Identifier: Apache-2.0
"""The properties of a built kernel, read from the image and its configuration, never from the build request."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kernels.built_objects import BuiltObjects

#: The fields that a comparison of two kernels covers, with their labels.
SHOWN = {
    "release": "release",
    "build": "build",
    "architecture": "architecture",
    "packing": "packed with",
    "built_by": "built by",
    "compiler": "compiler",
    "linker": "linker",
    "optimised": "optimised for",
    "lto": "LTO",
    "btf": "BTF",
    "hz": "HZ",
    "preemption": "preemption",
    "scheduler": "scheduler",
    "sched_ext": "sched_ext",
    "build_id": "build id",
}


#: The target prefix of a compiler's name, which is removed: x86_64-linux-gnu-gcc-12 becomes gcc-12.
_TARGET = re.compile(r"^\S+-(?=gcc|clang)")


def without_target(compiler: str) -> str:
    """Return a compiler's version text without the target prefix, which distcc adds."""
    return _TARGET.sub("", compiler)


class KernelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a kernel. A property is None if neither the kernel nor its configuration states it."""

    release: str
    build: str
    architecture: str
    packing: str | None
    built_by: str | None
    compiler: str | None
    linker: str | None
    build_id: str | None
    btf: bool | None
    scheduler: str | None
    config_from: str | None
    optimised: str | None = None
    lto: str | None = None
    hz: int | None = None
    preemption: str | None = None
    sched_ext: bool | None = None
    notes: tuple[str, ...] = ()


class KernelFound(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ktrial read. `symbols` is None without a configuration, `objects` outside a built tree."""

    name: str
    place: str
    identity: KernelIdentity
    symbols: Mapping[str, str] | None
    objects: BuiltObjects | None = None


class SymbolDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A symbol whose value differs between two configurations; None stands for a configuration without the symbol."""

    symbol: str
    before: str | None
    after: str | None


def identity_differences(before: KernelIdentity, after: KernelIdentity) -> dict[str, tuple[object, object]]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in SHOWN}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def symbol_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[SymbolDifference]:
    """Return every symbol that differs; a symbol that is `n` differs from a missing symbol."""
    names = sorted(before.keys() | after.keys())
    return [
        SymbolDifference(symbol=name, before=before.get(name), after=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]
