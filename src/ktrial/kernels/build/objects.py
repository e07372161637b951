# SPDX-License-Identifier: Apache-2.0
"""Looks through a built kernel tree: with which flags its objects were compiled, and by whom."""

from __future__ import annotations

import mmap
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from ktrial.kernels.built_objects import BuiltObjects, ObjectFlags
from ktrial.kernels.images.compiler_banner import comments, producers
from ktrial.kit.errors import BadInput
from ktrial.kit.files import why_unread
from ktrial.kit.formats.elf import Elf

Language = Literal["C", "Rust"]

_COMMAND = re.compile(rb"(?:saved)?cmd_(\S+) := ([^\n]*)")

_SOURCE = re.compile(rb"^source_\S+ := (\S+)", re.MULTILINE)

_C_TARGET = re.compile(rb"(?<=\s)-(march|mcpu|mtune)=(\S+)")

_C_LEVEL = re.compile(rb"(?<=\s)-O(\w*)(?=\s)")

_RUST_TARGET = re.compile(rb"(?<=\s)-C ?target-cpu=(\S+)")

_RUST_LEVEL = re.compile(rb"(?<=\s)-C ?opt-level=(\S+)")

_C_NAMES = ("march", "mcpu", "mtune")


class Compiled(NamedTuple):
    """An object: what it was compiled for and how much it was optimised, as the last flags say; empty: none does."""

    object: str
    language: Language
    target: str
    level: str


def read_cmd(data: bytes) -> Compiled | None:
    """Return what the file tells; None if its command compiles neither C nor Rust (it links, assembles, copies)."""
    command = _COMMAND.match(data)
    if command is None:
        return None
    name, words = command[1].decode(errors="replace"), b" " + command[2].partition(b" ; ")[0] + b" "
    source = _SOURCE.search(data)
    path = source[1] if source is not None else b""
    if path.endswith(b".rs") or b"rustc " in words:
        return Compiled(
            name, "Rust", _last(_RUST_TARGET, words, "-Ctarget-cpu="), _last(_RUST_LEVEL, words, "-Copt-level=")
        )
    if not path.endswith(b".c") or b" -c " not in words:
        return None
    return Compiled(name, "C", _c_target(words), _last(_C_LEVEL, words, "-O"))


def _c_target(words: bytes) -> str:
    """Return the last -march, -mcpu and -mtune: those that count."""
    found = {match[1].decode(): match[2].decode(errors="replace") for match in _C_TARGET.finditer(words)}
    return " ".join(f"-{name}={found[name]}" for name in _C_NAMES if name in found)


def _last(pattern: re.Pattern[bytes], words: bytes, flag: str) -> str:
    found = pattern.findall(words)
    return flag + found[-1].decode(errors="replace") if found else ""


#: Folders at the top whose objects are programs of the build, not parts of the kernel.
_NOT_THE_KERNEL = frozenset({"scripts", "tools", "usr", "Documentation", "samples", "include"})
#: Parts of a path whose code runs before the kernel, beside it or in programs, with flags of its own.
_APART = frozenset({"boot", "realmode", "purgatory", "libstub", "vdso", "vdso32", "tools", "hyp"})
_EXAMPLES = 3
_VMLINUX = "vmlinux"


def is_built_tree(folder: Path) -> bool:
    """Return whether a kernel was built in it."""
    return (folder / ".config").is_file() and (folder / _VMLINUX).is_file()


def built_objects(folder: Path) -> BuiltObjects:
    """Return what was compiled there. Raises BadInput if it cannot be read."""
    kernel: list[Compiled] = []
    apart = 0
    for compiled in _compiled(folder):
        if _APART & set(PurePosixPath(compiled.object).parts[:-1]):
            apart += 1
        else:
            kernel.append(compiled)
    named, made = _compilers(folder / _VMLINUX)
    return BuiltObjects(
        c=_flags(kernel, "C"),
        rust=_flags(kernel, "Rust"),
        apart=apart,
        examples=_examples(kernel),
        comments=named,
        producers=made,
    )


def _compiled(folder: Path) -> Iterator[Compiled]:
    for place, folders, names in os.walk(folder):
        if Path(place) == folder:
            folders[:] = [name for name in folders if name not in _NOT_THE_KERNEL]
        for name in names:
            if name.startswith(".") and name.endswith(".o.cmd"):
                path = Path(place) / name
                try:
                    compiled = read_cmd(path.read_bytes())
                except OSError as error:
                    raise BadInput(why_unread(error), file=str(path)) from None
                if compiled is not None:
                    yield compiled


def _flags(compiled: Sequence[Compiled], language: Language) -> ObjectFlags:
    these = [one for one in compiled if one.language == language]
    return ObjectFlags(
        count=len(these),
        targets=dict(Counter(one.target for one in these).most_common()),
        levels=dict(Counter(one.level for one in these).most_common()),
    )


def _examples(compiled: Sequence[Compiled]) -> dict[str, tuple[str, ...]]:
    """Target or level -> some objects, where most objects have another one."""
    found: dict[str, list[str]] = {}
    for language in ("C", "Rust"):
        these = sorted(one for one in compiled if one.language == language)
        for field in ("target", "level"):
            flags = [getattr(one, field) for one in these]
            common = Counter(flags).most_common(1)
            for one, flag in zip(these, flags, strict=True):
                if flag != common[0][0]:
                    found.setdefault(flag, []).append(one.object)
    return {flag: tuple(names[:_EXAMPLES]) for flag, names in found.items()}


def _compilers(vmlinux: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the compilers that the kernel names: in its comment, and in its debug information."""
    try:
        with vmlinux.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            elf = Elf(data, str(vmlinux))
            return comments(elf), producers(elf)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {error}", file=str(vmlinux)) from None
