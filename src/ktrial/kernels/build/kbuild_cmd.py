# SPDX-License-Identifier: Apache-2.0
"""What a kernel's build notes beside each object that it makes (`.NAME.o.cmd`): the command, and the source."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

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
    """What the file tells; None where its command compiles neither C nor Rust (it links, assembles, copies)."""
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
    """The last -march, -mcpu and -mtune: those that count."""
    found = {match[1].decode(): match[2].decode(errors="replace") for match in _C_TARGET.finditer(words)}
    return " ".join(f"-{name}={found[name]}" for name in _C_NAMES if name in found)


def _last(pattern: re.Pattern[bytes], words: bytes, flag: str) -> str:
    found = pattern.findall(words)
    return flag + found[-1].decode(errors="replace") if found else ""
