# SPDX-License-Identifier: Apache-2.0
"""A kernel module's file (`.ko`, packed or not): the object inside, and which modules it needs."""

from __future__ import annotations

import re
from typing import NamedTuple

from ktrial.kit.errors import BadInput
from ktrial.kit.formats.elf import Elf
from ktrial.kit.formats.packed import opened

_SUFFIX = re.compile(r"\.ko(\.(xz|zst|gz))?$")
_SOFT = re.compile(r"(pre:|post:)")


class KernelModule(NamedTuple):
    """A module: its object, and the names of those that must be loaded before it, and of those that should."""

    object: bytes
    depends: tuple[str, ...]
    before: tuple[str, ...]


def module_name(file: str) -> str | None:
    """The module that a file is called after, as the kernel writes its name; None if it is not a module's file."""
    name = file.rpartition("/")[2]
    return _SUFFIX.sub("", name).replace("-", "_") if _SUFFIX.search(name) else None


def read_module(data: bytes, source: str) -> KernelModule:
    """Return the module inside a file. Raises BadInput if it is none."""
    try:
        inside = opened(data)
    except BadInput as error:
        raise BadInput(error.message, file=source) from None
    plain = data if inside is None else inside.inner
    info = Elf(plain, source).section(".modinfo")
    if info is None:
        raise BadInput("it has no .modinfo and is not a kernel module", file=source)
    depends: list[str] = []
    before: list[str] = []
    for entry in info.split(b"\0"):
        key, _, value = entry.decode(errors="replace").partition("=")
        if key == "depends":
            depends += [name.replace("-", "_") for name in value.split(",") if name]
        if key == "softdep":
            before += _soft(value)
    return KernelModule(plain, tuple(depends), tuple(before))


def _soft(value: str) -> list[str]:
    """Return what should be loaded before: `NAME pre: a b post: c`."""
    _, *parts = _SOFT.split(value)
    return [
        name.replace("-", "_")
        for word, names in zip(parts[::2], parts[1::2], strict=True)
        if word == "pre:"
        for name in names.split()
    ]
