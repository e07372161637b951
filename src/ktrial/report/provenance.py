# SPDX-License-Identifier: Apache-2.0
"""Who set a knob, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ktrial.domain.origin import Origin, Word
from ktrial.report.terminal import labelled, paragraph

_LABEL_COLUMNS = 16
_SOURCES = {
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
    """`{"schema": …, "origins": […], "untold": […]}`."""
    return {
        "schema": "ktrial.why/1",
        "origins": [msgspec.to_builtins(origin) for origin in origins],
        "untold": list(untold),
    }


def origins_text(origins: Iterable[Origin], untold: Iterable[str], *, width: int) -> str:
    """One block per instance; what could not be looked at comes last."""
    blocks = [_block(origin, width) for origin in origins]
    notes = [paragraph(f"Not looked at: {line}", width=width) for line in untold]
    return "\n\n".join([*blocks, *notes]) + "\n"


def who(origin: Origin) -> str:
    """Who set it, in one phrase."""
    if origin.set_by is not None:
        return f"{_SOURCES[origin.set_by.source]}, {origin.set_by.place}"
    return {
        "kernel-default": "nobody: the kernel's default",
        "unknown-writer": "unknown writer: no file names this value",
        "nobody-named": "no file names this value; its default is not known",
        "unreadable": "cannot be read",
        "absent": "not on this machine",
        "set": "",
    }[origin.verdict]


def _block(origin: Origin, width: int) -> str:
    def line(label: str, text: str) -> str:
        return labelled(f"  {label}", text, width=width, label_columns=_LABEL_COLUMNS)

    lines = [f"{origin.address} = {origin.value}" if origin.value is not None else origin.address]
    if origin.path is not None:
        lines.append(line("file", origin.path))
    default = origin.default if origin.default is not None else f"not known: {origin.default_unknown}"
    lines.append(line("default", default))
    lines.append(line("set by", who(origin) + (f" ({origin.why})" if origin.why else "")))
    if origin.set_by is not None and origin.set_by.conditions:
        lines.append(line("only if", "; ".join(origin.set_by.conditions)))
    lines += [line("overrode", _said(word)) for word in reversed(origin.overrode)]
    lines += [line("not in force", _said(word)) for word in origin.not_in_force]
    return "\n".join(lines)


def _said(word: Word) -> str:
    value = "(no value)" if word.value is None else word.value
    return f"{word.place} (= {value})"
