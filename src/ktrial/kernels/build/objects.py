# SPDX-License-Identifier: Apache-2.0
"""Finds out with which flags the objects of a built kernel tree were compiled, and by which compiler."""

from __future__ import annotations

import mmap
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from ktrial.kernels.built_objects import BuiltObjects, ObjectFlags
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
    """An object, with the last `target` and optimisation `level` on its command line; empty if no flag sets them."""

    object: str
    language: Language
    target: str
    level: str


def read_cmd(data: bytes) -> Compiled | None:
    """Return the object that a saved command compiles; None if it compiles neither C nor Rust."""
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
    found = {match[1].decode(): match[2].decode(errors="replace") for match in _C_TARGET.finditer(words)}
    return " ".join(f"-{name}={found[name]}" for name in _C_NAMES if name in found)


def _last(pattern: re.Pattern[bytes], words: bytes, flag: str) -> str:
    found = pattern.findall(words)
    return flag + found[-1].decode(errors="replace") if found else ""


#: Top-level folders whose objects are build tools, not parts of the kernel.
_NOT_THE_KERNEL = frozenset({"scripts", "tools", "usr", "Documentation", "samples", "include"})
#: Folders of code with its own flags, which runs before the kernel, beside it or in user space.
_APART = frozenset({"boot", "realmode", "purgatory", "libstub", "vdso", "vdso32", "tools", "hyp"})
_EXAMPLES = 3
_VMLINUX = "vmlinux"
#: The DW_AT_producer strings of compilers; gcc appends the flags that change code.
_PRODUCER = re.compile(
    rb"(?:GNU (?:C|AS|GIMPLE)\S* |(?<![\w.-])(?<![\w.-] )(?:[\w.-]+ )*clang version |clang LLVM \(rustc version )"
    rb"[^\0\n]*"
)
_FLAG = re.compile(r"-(?:march|mcpu|mtune)=\S+|-O\w*(?= |$)")
_UNPACKED_LIMIT_BYTES = 512 << 20


def is_built_tree(folder: Path) -> bool:
    return (folder / ".config").is_file() and (folder / _VMLINUX).is_file()


def built_objects(folder: Path) -> BuiltObjects:
    """Return the compilers of a built tree and the flags of its objects. Raise BadInput if a file is unreadable."""
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
                    raise BadInput(
                        why_unread(error), file=str(path), hint="check the permissions of the tree"
                    ) from None
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
    try:
        with vmlinux.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            elf = Elf(data, str(vmlinux))
            return comments(elf), producers(elf)
    except OSError as error:
        raise BadInput(why_unread(error), file=str(vmlinux), hint="check the permissions of the tree") from None
    except ValueError:  # the file is empty
        raise BadInput("not a kernel: the file is empty", file=str(vmlinux), hint="build the kernel again") from None


def comments(file: Elf) -> tuple[str, ...]:
    data = file.section(".comment") or b""
    return tuple(dict.fromkeys(text.decode(errors="replace") for text in data.split(b"\0") if text))


def producers(file: Elf) -> tuple[str, ...]:
    """Return the compilers named in the debug information, with the target and optimisation level recorded there."""
    data = _unpacked(file.section(".debug_str") or b"")
    found = (match[0].decode(errors="replace") for match in _PRODUCER.finditer(data))
    return tuple(sorted({" ".join((text.partition(" -")[0], *_FLAG.findall(text))) for text in found}))


def _unpacked(section: bytes) -> bytes:
    """Return the section, unpacked if it was compressed with zlib.

    A compressed section begins with its kind (1), its size and its alignment.
    """
    if section[:8] != b"\1" + b"\0" * 7 or len(section) < 24:
        return section
    try:
        return zlib.decompressobj().decompress(section[24:], _UNPACKED_LIMIT_BYTES)
    except zlib.error:
        return section
