# SPDX-License-Identifier: Apache-2.0
"""Who compiled an ELF file, in its own words: what compilers write into `.comment` and into debug information."""

from __future__ import annotations

import re
import zlib

from ktrial.kit.formats.elf import Elf

#: Strings that compilers leave as DW_AT_producer; gcc adds the flags that change code.
_PRODUCER = re.compile(
    rb"(?:GNU (?:C|AS|GIMPLE)\S* |(?<![\w.-])(?<![\w.-] )(?:[\w.-]+ )*clang version |clang LLVM \(rustc version )"
    rb"[^\0\n]*"
)
_FLAG = re.compile(r"-(?:march|mcpu|mtune)=\S+|-O\w*(?= |$)")
_LIMIT_BYTES = 512 << 20


def comments(file: Elf) -> tuple[str, ...]:
    """Return the compilers that `.comment` names, each once."""
    data = file.section(".comment") or b""
    return tuple(dict.fromkeys(text.decode(errors="replace") for text in data.split(b"\0") if text))


def producers(file: Elf) -> tuple[str, ...]:
    """The compilers that debug information names, with the target and the level of optimisation that they recorded."""
    data = _unpacked(file.section(".debug_str") or b"")
    found = (match[0].decode(errors="replace") for match in _PRODUCER.finditer(data))
    return tuple(sorted({_short(text) for text in found}))


def _short(producer: str) -> str:
    head = producer.partition(" -")[0]
    return " ".join((head, *_FLAG.findall(producer)))


def _unpacked(section: bytes) -> bytes:
    """Return a section that was packed with zlib begins with its kind (1), its size and its alignment."""
    if section[:8] != b"\1" + b"\0" * 7 or len(section) < 24:
        return section
    try:
        return zlib.decompressobj().decompress(section[24:], _LIMIT_BYTES)
    except zlib.error:
        return section
