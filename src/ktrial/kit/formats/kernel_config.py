# SPDX-License-Identifier: Apache-2.0
"""Reader of kernel configurations (`.config`: version, compiler, symbols) and of fragments of a configuration."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable

_HEAD = re.compile(r"# Linux/(\S+) (\S+) Kernel Configuration")
_COMPILER = "CONFIG_CC_VERSION_TEXT="
_SET = re.compile(r"CONFIG_\w+=")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set", re.ASCII)
_ASSIGNED = re.compile(r"CONFIG_(\w+)=(.+)", re.ASCII)


class KernelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel's configuration; `version` is the version of the sources, `symbols` counts the symbols with a value."""

    architecture: str
    version: str
    compiler: str
    symbols: int


def read_kernel_config(data: bytes, source: str = ".config") -> KernelConfig:
    """Read a configuration of Linux 4.18 or later.

    Raise UnreadableOutput unless it has exactly one heading and one line with the compiler.
    """
    head: tuple[str, str] | None = None
    compiler: str | None = None
    symbols = 0
    for line, text in numbered(data, source):
        if match := _HEAD.fullmatch(text):
            if head is not None:
                raise unreadable(source, line, text, "the only heading: an earlier line is a heading too")
            head = (match[1], match[2])
        elif text.startswith(_COMPILER):
            value = text.removeprefix(_COMPILER)
            if len(value) < 3 or value[0] != '"' or value[-1] != '"':
                raise unreadable(source, line, text, f'a line of the form {_COMPILER}"…"')
            if compiler is not None:
                raise unreadable(source, line, text, f'the only line of the form {_COMPILER}"…"')
            compiler = value[1:-1]
        symbols += bool(_SET.match(text))
    if head is None or compiler is None:
        missing = "'# Linux/… Kernel Configuration'" if head is None else _COMPILER
        raise unreadable(source, None, "", f"a kernel's configuration: the line {missing} is missing")
    return KernelConfig(architecture=head[0], version=head[1], compiler=compiler, symbols=symbols)


def read_symbols(data: bytes, source: str = ".config") -> dict[str, str]:
    """Return the value of every symbol that a configuration sets, as written there; unset symbols are missing."""
    symbols: dict[str, str] = {}
    for line, text in numbered(data, source):
        if not text.strip() or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("CONFIG_"):
            raise unreadable(source, line, text, "a line `CONFIG_NAME=VALUE`")
        symbols[name.removeprefix("CONFIG_")] = value
    return symbols


class ConfigLine(msgspec.Struct, frozen=True):
    """A line of a fragment that sets a symbol; `value` is `n` if the line switches the symbol off."""

    number: int
    symbol: str
    value: str


def read_fragment(data: bytes, source: str = "a fragment") -> tuple[ConfigLine, ...]:
    """Read settings of symbols, as in `.config`, and skip comments.

    Raise UnreadableOutput for other lines, or if no symbol is set.
    """
    lines = []
    for number, text in numbered(data, source):
        stripped = text.strip()
        if match := _UNSET.fullmatch(stripped):
            lines.append(ConfigLine(number, match[1], "n"))
        elif stripped and not stripped.startswith("#"):
            match = _ASSIGNED.fullmatch(stripped)
            if match is None:
                raise unreadable(source, number, text, "a line `CONFIG_NAME=VALUE` or `# CONFIG_NAME is not set`")
            lines.append(ConfigLine(number, match[1], match[2]))
    if not lines:
        raise unreadable(source, None, "", "a fragment of a configuration: it sets no symbol")
    return tuple(lines)


def fragment_line(symbol: str, value: str, kind: str | None) -> str:
    """Return the line of a fragment that sets `symbol` to `value`; `kind` is the symbol's type, if known."""
    if value == "n" and kind not in ("string", "int", "hex"):
        return f"# CONFIG_{symbol} is not set\n"
    if kind == "string" and not (len(value) > 1 and value[0] == value[-1] == '"'):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'CONFIG_{symbol}="{escaped}"\n'
    return f"CONFIG_{symbol}={value}\n"
