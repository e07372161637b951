# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus's text format 0.0.4 and OpenMetrics 1.0, in time that grows linearly with the text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ktrial.kit.formats.tool_output import unreadable

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[ \t]*([a-zA-Z_][a-zA-Z0-9_]*|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\")[ \t]*(=?)[ \t]*")
_VALUE = re.compile(r"\"([^\"\\\n]*(?:\\.[^\"\\\n]*)*)\"[ \t]*(,?)")
_CLOSE = re.compile(r"[ \t]*\}")
_ESCAPE = re.compile(r"\\(.)")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[iI]nf(?:inity)?|[nN]a[nN]")
_META = re.compile(r"# (TYPE|UNIT)[ \t]+(\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\S+)[ \t]+(\S+)[ \t]*")
_ESCAPED = {"n": "\n"}
_END = "# EOF"


class Exposed(NamedTuple):
    """A sample of an exposition. `at_ms` is the sample's own time, if it has one."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_ms: int | None


class Exposition(msgspec.Struct, frozen=True):
    """The samples of one scrape, and the types and units of their families."""

    samples: tuple[Exposed, ...]
    types: Mapping[str, str]
    units: Mapping[str, str]


def read_exposition(
    data: bytes, source: str, *, is_openmetrics: bool, wants: Callable[[str], bool] = lambda _: True
) -> Exposition:
    """Read a scrape. Labels are parsed only for samples whose name `wants` accepts.

    Raise UnreadableOutput if the text is malformed or cut off.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise unreadable(source, None, "", f"UTF-8 text (byte {error.start})") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1]:
        raise unreadable(source, len(lines), lines[-1], "a whole line (the text was cut off)")
    lines.pop()
    if is_openmetrics and (not lines or lines[-1] != _END):
        raise unreadable(source, len(lines), lines[-1] if lines else "", f"{_END} (the text was cut off)")
    samples: list[Exposed] = []
    types: dict[str, str] = {}
    units: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            meta = _META.fullmatch(line)
            if meta is not None:
                (types if meta[1] == "TYPE" else units)[_plain(meta[2])] = meta[3]
        elif line.strip():
            sample = _sample(line, wants, is_openmetrics=is_openmetrics)
            if isinstance(sample, str):
                raise unreadable(source, number, line, sample)
            if sample is not None:
                samples.append(sample)
    return Exposition(tuple(samples), types, units)


def _sample(line: str, wants: Callable[[str], bool], *, is_openmetrics: bool) -> Exposed | str | None:
    """Return the sample of a line; a text with what was expected if the line is malformed; None if not wanted."""
    named = _NAME.match(line)
    name, at = (named[0], named.end()) if named is not None else ("", 0)
    if named is not None and not wants(name):
        return None
    while at < len(line) and line[at] in " \t":
        at += 1
    labels: dict[str, str] = {}
    if line[at : at + 1] == "{":
        found = _labels(line, at + 1, labels)
        if found is None:
            return 'a sample with labels NAME="VALUE", …'
        name, at = found[0] or name, found[1]
    if not name:
        return "a sample (a name, labels in braces and a number)"
    if not wants(name):
        return None
    words = line[at:].partition(" #" if is_openmetrics else "\0")[0].split()
    if not 1 <= len(words) <= 2 or not all(map(_NUMBER.fullmatch, words)):
        return "a sample with a number, or a number and a time, after the name and labels"
    time = float(words[1]) * (1000 if is_openmetrics else 1) if len(words) == 2 else None
    if time is not None and (not math.isfinite(time) or abs(time) > 1e15):
        return "a sample with a time in the valid range"
    return Exposed(name, labels, float(words[0]), None if time is None else round(time))


def _labels(line: str, at: int, labels: dict[str, str]) -> tuple[str, int] | None:
    """Add the labels that begin at a position.

    Return the name in the braces, if any, and the end; None if malformed.
    """
    name = ""
    is_last = False
    while True:
        close = _CLOSE.match(line, at)
        if close is not None:
            return name, close.end()
        label = None if is_last else _LABEL.match(line, at)
        if label is None:
            return None
        at = label.end()
        if not label[2]:
            if name or not label[1].startswith('"'):
                return None
            name = _plain(label[1])
            is_last = line[at : at + 1] != ","
            at += not is_last
            continue
        value = _VALUE.match(line, at)
        key = _plain(label[1])
        if value is None or key in labels:
            return None
        labels[key] = _unescaped(value[1])
        at, is_last = value.end(), not value[2]


def _plain(text: str) -> str:
    return _unescaped(text[1:-1]) if text.startswith('"') else text


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text) if "\\" in text else text
