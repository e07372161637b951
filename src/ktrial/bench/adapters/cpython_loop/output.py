# SPDX-License-Identifier: Apache-2.0
"""Output of the program of `cpython-loop`: JSON with the interpreter, the results and the time of each loop."""

from __future__ import annotations

import msgspec

from ktrial.kit.formats.tool_output import json_document, json_whole, unreadable


class LoopRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `results` are the distinct results of the loops: more than one means that something went wrong."""

    implementation: str
    version: str
    results: tuple[int, ...]
    times_ns: tuple[int, ...]


def read_loop_run(data: bytes, source: str = "stdout") -> LoopRun:
    """Parse the program's output. Raise UnreadableOutput if a key or all times are missing."""
    document = json_document(data, source)
    words: dict[str, str] = {}
    for key in ("implementation", "version"):
        value = document.get(key)
        if not isinstance(value, str) or not value:
            raise unreadable(source, None, "", f"output of cpython-loop: it has no text {key!r}")
        words[key] = value
    numbers: dict[str, tuple[int, ...]] = {}
    for key in ("results", "times_ns"):
        value = document.get(key)
        if not isinstance(value, list) or not value:
            raise unreadable(source, None, "", f"output of cpython-loop: it has no list of numbers {key!r}")
        numbers[key] = tuple(json_whole(item, source, key) for item in value)
    return LoopRun(**words, **numbers)  # type: ignore[arg-type]
