# SPDX-License-Identifier: Apache-2.0
"""Kernel module files (`.ko`, compressed or not): the object inside, and the modules it needs."""

from __future__ import annotations

import re
from typing import NamedTuple

from ktrial.kit.errors import BadInput
from ktrial.kit.formats.elf import Elf
from ktrial.kit.formats.packed import opened

_SUFFIX = re.compile(r"\.ko(\.(xz|zst|gz))?$")
_SOFT = re.compile(r"(pre:|post:)")


class KernelModule(NamedTuple):
    """A kernel module. It needs the modules in `depends`; its softdep asks to load the modules in `before` first."""

    object: bytes
    depends: tuple[str, ...]
    before: tuple[str, ...]


def module_name(file: str) -> str | None:
    """Return the kernel's name for the module in `file`; None if `file` does not have the suffix of a module."""
    name = file.rpartition("/")[2]
    return _SUFFIX.sub("", name).replace("-", "_") if _SUFFIX.search(name) else None


def read_module(data: bytes, source: str) -> KernelModule:
    """Return the module inside a file. Raise BadInput if the file holds no module."""
    try:
        inside = opened(data)
    except BadInput as error:
        raise BadInput(error.message, file=source, hint="build or install the module again") from None
    plain = data if inside is None else inside.inner
    info = Elf(plain, source).section(".modinfo")
    if info is None:
        raise BadInput("not a kernel module: it has no .modinfo", file=source, hint="reinstall the kernel's modules")
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
    """Return the modules after `pre:` in a softdep: `NAME pre: a b post: c`."""
    _, *parts = _SOFT.split(value)
    return [
        name.replace("-", "_")
        for word, names in zip(parts[::2], parts[1::2], strict=True)
        if word == "pre:"
        for name in names.split()
    ]
