# SPDX-License-Identifier: Apache-2.0
"""Finds where a kernel's arch/x86/Makefile sets the target of 64-bit code, by structure, in all known versions."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable

#: A list of flags with cc-option, a list without it, one pair of flags, or one pair beside -march=native.
Shape = Literal["cc-option", "list", "direct", "native"]

_END = re.compile(r"\s*KBUILD_CFLAGS\s*\+=\s*-mno-red-zone\b.*")
_BEGIN = re.compile(r"\s*KBUILD_CFLAGS\s*\+=\s*-m64\b.*")
_SUM = re.compile(r"(\s*)KBUILD_CFLAGS\s*\+=\s*\$\(cflags-y\)\s*")
_RUST_SUM = re.compile(r"\s*KBUILD_RUSTFLAGS\s*\+=\s*\$\(rustflags-y\)\s*")
_K8 = re.compile(r"\s*cflags-\$\(CONFIG_MK8\)\s*\+=\s*(.*)")
_DIRECT = re.compile(r"(\s*)KBUILD_CFLAGS\s*\+=\s*-march=x86-64\b.*")
_DIRECT_RUST = re.compile(r"\s*KBUILD_RUSTFLAGS\s*\+=\s*-Ctarget-cpu=x86-64\b.*")
_NATIVE = re.compile(r"\s*ifdef\s+CONFIG_X86_NATIVE_CPU\s*")
_ELSE = re.compile(r"\s*else\s*")
_VERSION = re.compile(r"(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)\s*=[ \t]*(\S*)\s*")


class FlagBlock(msgspec.Struct, frozen=True):
    """Lines `first` to `last` of the file, counted from 1, which set the target.

    If `shape` is cc-option or list, new lines go after `last`; otherwise they go around the block.
    """

    shape: Shape
    first: int
    last: int
    indent: str
    rust: bool


def read_flag_block(data: bytes, source: str = "arch/x86/Makefile") -> FlagBlock:
    """Find the block between -m64 and -mno-red-zone. Raise UnreadableOutput if its structure is unknown."""
    lines = [text for _, text in numbered(data, source)]
    ends = [number for number, text in enumerate(lines) if _END.fullmatch(text)]
    if len(ends) != 1:
        raise unreadable(
            source,
            None,
            "",
            f"a Makefile that sets -mno-red-zone in KBUILD_CFLAGS exactly once: it sets the flag {len(ends)} times",
        )
    begins = [number for number, text in enumerate(lines[: ends[0]]) if _BEGIN.fullmatch(text)]
    if not begins:
        raise unreadable(source, ends[0] + 1, lines[ends[0]].strip(), "preceded by -m64 in KBUILD_CFLAGS")
    found = range(begins[-1] + 1, ends[0])
    block = _block_in(lines, found) or _direct(lines, found)
    if block is None:
        wanted = "preceded by exactly one $(cflags-y) or -march=x86-64 in KBUILD_CFLAGS"
        raise unreadable(source, ends[0] + 1, lines[ends[0]].strip(), wanted)
    return block


def _block_in(lines: list[str], found: range) -> FlagBlock | None:
    sums = [number for number in found if _SUM.fullmatch(lines[number])]
    direct = [number for number in found if _DIRECT.fullmatch(lines[number]) or _NATIVE.fullmatch(lines[number])]
    if len(sums) != 1 or direct:
        return None
    rust = [number for number in found if _RUST_SUM.fullmatch(lines[number])]
    optional = any((match := _K8.fullmatch(lines[number])) and "cc-option" in match[1] for number in found)
    indent = _indent(lines[sums[0]])
    last = max((sums[0], *rust))
    return FlagBlock("cc-option" if optional else "list", sums[0] + 1, last + 1, indent, bool(rust))


def _direct(lines: list[str], found: range) -> FlagBlock | None:
    flags = [number for number in found if _DIRECT.fullmatch(lines[number])]
    if len(flags) != 1 or any(_SUM.fullmatch(lines[number]) for number in found):
        return None
    first = last = flags[0]
    rust = last + 1 in found and bool(_DIRECT_RUST.fullmatch(lines[last + 1]))
    last += rust
    native = [number for number in found if _NATIVE.fullmatch(lines[number])]
    if not native:
        return FlagBlock("direct", first + 1, last + 1, _indent(lines[first]), rust)
    if len(native) == 1 and native[0] < first and _ELSE.fullmatch(lines[first - 1]):
        return FlagBlock("native", first + 1, last + 1, _indent(lines[first]), rust)
    return None


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def read_tree_version(data: bytes, source: str = "Makefile") -> str:
    """Return the version in the top Makefile of a kernel tree: 6.12.117."""
    found: dict[str, str] = {}
    for _, text in numbered(data, source):
        if match := _VERSION.fullmatch(text):
            found.setdefault(match[1], match[2])
    missing = next((name for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if not found.get(name, "").isdigit()), None)
    if missing is not None:
        raise unreadable(source, None, "", f"the top Makefile of a kernel: {missing} is missing or not a number")
    return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**found) + found.get("EXTRAVERSION", "")
