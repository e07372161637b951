# SPDX-License-Identifier: Apache-2.0
"""The origins of knobs as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ktrial.kit.tables import labelled, paragraph
from ktrial.tuning.origin.origin import Origin, Word

_LABEL_COLUMNS = 16
_SOURCES = {
    "kernel-build": "the kernel's configuration",
    "command-line": "the kernel command line",
    "modprobe.d": "module options",
    "zram-generator": "zram-generator",
    "tmpfiles.d": "tmpfiles.d",
    "sysctl.d": "sysctl.d",
    "udev": "a udev rule",
    "tuned": "the active TuneD profile",
    "ktrial": "ktrial",
}


def origins_json(origins: Iterable[Origin], untold: Iterable[str]) -> dict[str, Any]:
    return {
        "schema": "ktrial.why/1",
        "origins": [msgspec.to_builtins(origin) for origin in origins],
        "untold": list(untold),
    }


def origins_text(origins: Iterable[Origin], untold: Iterable[str], *, width: int) -> str:
    """Return a text with a block for each knob and its equal instances, and at the end what could not be examined."""
    notes = [paragraph(f"Not examined: {line}", width=width) for line in untold]
    blocks = [_block(same, width, all_seen=not notes) for same in _alike(origins)]
    return "\n\n".join([*blocks, *notes]) + "\n"


def who(origin: Origin) -> str:
    if origin.set_by is not None:
        return f"{_SOURCES[origin.set_by.source]}, {origin.set_by.place}"
    return {
        "kernel-default": "nobody: the kernel's default",
        "unknown-writer": "unknown writer: no file names this value",
        "nobody-named": "no file names this value; its default is unknown",
        "unreadable": "unreadable",
        "absent": "not on this machine",
        "set": "",
    }[origin.verdict]


def _alike(origins: Iterable[Origin]) -> list[list[Origin]]:
    """Group instances of a knob that differ only in their names."""
    groups: dict[Origin, list[Origin]] = {}
    for origin in origins:
        groups.setdefault(replace(origin, address=origin.knob, path=None), []).append(origin)
    return list(groups.values())


def _block(same: Sequence[Origin], width: int, *, all_seen: bool) -> str:
    def line(label: str, text: str) -> str:
        return labelled(f"  {label}", text, width=width, label_columns=_LABEL_COLUMNS)

    origin, *others = same
    name = ",".join([origin.address, *(other.address.partition("@")[2] for other in others)])
    lines = [labelled("", name if origin.value is None else f"{name} = {origin.value}", width=width, label_columns=0)]
    if origin.path is not None:
        lines.append(line("file", origin.path + (f" and {len(others)} more" if others else "")))
    default = origin.default if origin.default is not None else f"unknown: {origin.default_unknown}"
    lines.append(line("default", default))
    more = "" if all_seen or origin.verdict != "unknown-writer" else "; some sources were not examined, see below"
    lines.append(line("set by", who(origin) + more + (f" ({origin.why})" if origin.why else "")))
    if origin.set_by is not None and origin.set_by.conditions:
        lines.append(line("only if", "; ".join(origin.set_by.conditions)))
    lines += [line("overrode", _word_text(word)) for word in reversed(origin.overrode)]
    lines += [line("not in force", _word_text(word)) for word in origin.not_in_force]
    return "\n".join(lines)


def _word_text(word: Word) -> str:
    value = "(no value)" if word.value is None else word.value
    return f"{word.place} (= {value})"
