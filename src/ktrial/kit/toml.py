# SPDX-License-Identifier: Apache-2.0
"""Decode TOML into typed values; errors name file, line and column."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from ktrial.kit.errors import BadInput, in_lower_case
from ktrial.kit.plain_text import UNPLAIN

T = TypeVar("T")

_SYNTAX = re.compile(r"^(?P<what>.*?) \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_PATH_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+|\.\.\.)\]")


def parse(text: str, file: str, shape: type[T], hint: str) -> T:
    """Decode the text as `shape`. Raise BadInput with the place of the fault."""
    import tomllib

    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _SYNTAX.match(str(error))
        if match is None:
            raise BadInput(f"invalid TOML: {error}", file=file, line=text.count("\n") + 1, hint=hint) from None
        raise BadInput(
            f"invalid TOML: {in_lower_case(match['what'])}",
            file=file,
            line=int(match["line"]),
            column=int(match["column"]),
            hint=hint,
        ) from None
    except RecursionError:
        raise BadInput("cannot read TOML: nested too deeply", file=file, hint=hint) from None
    try:
        return msgspec.convert(tree, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `")
        path = where.rstrip("`")
        line, column = locate(text, path, message)
        message = in_lower_case(message)
        located = f"{path.removeprefix('$').lstrip('.')}: {message}" if path else message
        raise BadInput(located, file=file, line=line, column=column, hint=hint) from None


def parse_bytes(data: bytes, file: str, shape: type[T], hint: str) -> T:
    """Decode UTF-8 bytes as `shape`. Raise BadInput with the place of the fault."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        line, column = data.count(b"\n", 0, error.start) + 1, len(data[begin : error.start].decode()) + 1
        raise BadInput(f"not UTF-8 text (byte {error.start})", file=file, line=line, column=column, hint=hint) from None
    return parse(text, file, shape, hint)


def quoted(value: str | float | bool) -> str:
    """Return a value as a TOML literal, with control characters and invisible characters escaped."""
    return UNPLAIN.sub(_escape, msgspec.json.encode(value).decode())


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def locate(text: str, where: str, message: str) -> tuple[int, int]:
    """Return line and column in `text` of the path `where`, such as `$.knob[3].risk`, or of the nearest table."""
    lines = text.splitlines()
    start, key = 0, ""
    tables: list[str] = []
    for match in _PATH_STEP.finditer(where):
        if match[1] is not None:
            key = match[1]
            tables.append(key)
            start = _header(lines, start, f"[{'.'.join(tables)}]", 0)
        elif match[2] != "...":
            start = _header(lines, start, f"[[{'.'.join(tables)}]]", int(match[2]))
            key = ""
    named = re.search(r"unknown field `([^`]+)`", message)
    for wanted in (named[1] if named else "", key):
        for number in range(start, len(lines)):
            if wanted and re.match(rf"\s*\"?{re.escape(wanted)}\"?\s*[=.]", lines[number]):
                return number + 1, len(lines[number]) - len(lines[number].lstrip()) + 1
    return (start + 1, 1)


def _header(lines: list[str], start: int, header: str, which: int) -> int:
    """Return the line of the table header with index `which` from line `start` on; `start` if there is none."""
    headers = [number for number in range(start, len(lines)) if lines[number].strip().startswith(header)]
    return headers[which] if which < len(headers) else start
