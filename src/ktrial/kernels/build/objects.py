# SPDX-License-Identifier: Apache-2.0
"""Looks through a built kernel tree: with which flags its objects were compiled, and by whom."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from ktrial.kernels.build.kbuild_cmd import Compiled, Language, read_cmd
from ktrial.kernels.built_objects import BuiltObjects, Flags
from ktrial.kernels.images.compiler_banner import comments, producers
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.elf import Elf

#: Folders at the top whose objects are programs of the build, not parts of the kernel.
_NOT_THE_KERNEL = frozenset({"scripts", "tools", "usr", "Documentation", "samples", "include"})
#: Parts of a path whose code runs before the kernel, beside it or in programs, with flags of its own.
_APART = frozenset({"boot", "realmode", "purgatory", "libstub", "vdso", "vdso32", "tools", "hyp"})
_EXAMPLES = 3
_VMLINUX = "vmlinux"


def is_built_tree(folder: Path) -> bool:
    """Whether a kernel was built in it."""
    return (folder / ".config").is_file() and (folder / _VMLINUX).is_file()


def built_objects(folder: Path) -> BuiltObjects:
    """What was compiled there. Raises BadInput where it cannot be read."""
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
                    raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None
                if compiled is not None:
                    yield compiled


def _flags(compiled: Sequence[Compiled], language: Language) -> Flags:
    these = [one for one in compiled if one.language == language]
    return Flags(
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
    """The compilers that the kernel names: in its comment, and in its debug information."""
    try:
        with vmlinux.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            elf = Elf(data, str(vmlinux))
            return comments(elf), producers(elf)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {error}", file=str(vmlinux)) from None
