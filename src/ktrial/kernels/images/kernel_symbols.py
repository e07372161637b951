# SPDX-License-Identifier: Apache-2.0
"""The symbols of a kernel's configuration, from a `.config` or from inside the kernel (IKCONFIG)."""

from __future__ import annotations

import re
import zlib

from ktrial.kit.errors import BadInput

_SET = re.compile(r"CONFIG_(\w+)=(.*)")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set")
_BEGIN, _END = b"IKCFG_ST", b"IKCFG_ED"
_GZIP_WINDOW = 31
_LIMIT_BYTES = 16 << 20


def read_symbols(data: bytes, source: str) -> dict[str, str]:
    """Symbol -> value as written (`y`, `m`, `n`, a number, a string without quotes)."""
    found: dict[str, str] = {}
    for number, raw in enumerate(data.splitlines(), start=1):
        line = raw.decode(errors="replace").strip()
        if match := _SET.fullmatch(line):
            found[match[1]] = match[2].strip('"')
        elif match := _UNSET.fullmatch(line):
            found[match[1]] = "n"
        elif line and not line.startswith("#"):
            raise BadInput(
                f"{line[:60]!r} is no line of a kernel's configuration",
                file=source,
                line=number,
                hint="CONFIG_NAME=…",
            )
    if not found:
        raise BadInput("it has no symbol of a kernel's configuration", file=source)
    return found


def built_in(kernel: bytes) -> bytes | None:
    """The configuration that a kernel carries; None where it carries none, or not whole."""
    begin = kernel.find(_BEGIN)
    end = kernel.find(_END, begin)
    if begin < 0 or end < 0:
        return None
    machine = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = machine.decompress(kernel[begin + len(_BEGIN) : end], _LIMIT_BYTES)
    except zlib.error:
        return None
    return text if machine.eof else None
