# SPDX-License-Identifier: Apache-2.0
"""Output of SynthMark: `key = value` lines between RESULTS_BEGIN and RESULTS_END, and JitterMark's table.

SynthMark exits with 0 even if it calls its result invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import for_message, number, numbered, unreadable, whole

_VERSION = re.compile(r"# SynthMark V(\S+)")
_PAIR = re.compile(r"\s*([A-Za-z][\w.]*)\s*=([^#]*)(?:#.*)?")
_BIN = re.compile(r"\s*(\d+),\s*(\S+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+)\s*")


class SynthmarkRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: printed `results` by key, and the `settings` printed before them.

    `wakeups` and `renders` are JitterMark's counts; their keys are the lower edges of the bins in milliseconds.
    """

    version: str
    test: str
    results: Mapping[str, str]
    settings: Mapping[str, str] = {}
    wakeups: Mapping[str, int] = {}
    renders: Mapping[str, int] = {}


def read_synthmark(data: bytes, source: str = "stdout") -> SynthmarkRun:
    """Parse SynthMark's stdout. Raise BadRun if SynthMark calls its own result invalid."""
    version: str | None = None
    head: dict[str, str] = {}
    results: dict[str, str] = {}
    bins: list[tuple[str, int, int]] = []
    state = "head"
    for line, text in numbered(data, source):
        if match := _VERSION.match(text):
            version = match[1]
        elif text.strip() in {"RESULTS_BEGIN", "RESULTS_END"}:
            state = "results" if text.strip() == "RESULTS_BEGIN" else "end"
        elif "not a valid result" in text.lower():
            raise BadRun(
                f"SynthMark calls its own result invalid: {for_message(text)}", hint="let SynthMark run longer"
            )
        elif state == "results" and (match := _BIN.fullmatch(text)):
            number(match[2], source, line, "milliseconds")
            wakeups, renders = (whole(match[index], source, line, "a count") for index in (3, 5))
            bins.append((match[2], wakeups, renders))
        elif (match := _PAIR.fullmatch(text)) and state != "end":
            _keep(results if state == "results" else head, match[1], match[2].strip(), source, line)
    if version is None or "test.name" not in head or state != "end":
        missing = "RESULTS_END" if version else "the head"
        raise unreadable(source, None, "", f"complete output of SynthMark: {missing} is missing")
    return SynthmarkRun(
        version=version,
        test=head["test.name"],
        results=results,
        settings=head,
        wakeups={edge: count for edge, count, _ in bins if count},
        renders={edge: count for edge, _, count in bins if count},
    )


def _keep(pairs: dict[str, str], key: str, value: str, source: str, line: int) -> None:
    """Store the first value of a key; SynthMark prints its settings again after the results."""
    if not value:
        raise unreadable(source, line, key, "a key with a value")
    pairs.setdefault(key, value)
