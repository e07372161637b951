# SPDX-License-Identifier: Apache-2.0
"""Where a knob's value comes from."""

from __future__ import annotations

from typing import Literal

import msgspec

Source = Literal[
    "kernel-build",
    "command-line",
    "modprobe.d",
    "zram-generator",
    "tmpfiles.d",
    "sysctl.d",
    "udev",
    "tuned",
    "ktrial",
]
#: The order in which sources act; of two that name one knob the later has the last word.
ORDER: tuple[Source, ...] = (
    "kernel-build",
    "command-line",
    "modprobe.d",
    "zram-generator",
    "tmpfiles.d",
    "sysctl.d",
    "udev",
    "tuned",
    "ktrial",
)
Verdict = Literal["set", "kernel-default", "unknown-writer", "nobody-named", "unreadable", "absent"]
"""`set`: a source names the value in force. `kernel-default`: no source does and it is the mainline default.
`unknown-writer`: neither. `nobody-named`: no source names the value and the default is not known.
"""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says about a knob. `place` is `file:line`; `in_force` whether its value is the one in force."""

    source: Source
    place: str
    value: str | None
    text: str
    conditions: tuple[str, ...]
    in_force: bool


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a knob: what is in force, the kernel's default, and who set it.

    `overrode` are words of lower rank or earlier lines, `not_in_force` words that should have won and did not; oldest
    first.
    """

    knob: str
    address: str
    path: str | None
    value: str | None
    default: str | None
    default_unknown: str | None
    verdict: Verdict
    set_by: Word | None = None
    overrode: tuple[Word, ...] = ()
    not_in_force: tuple[Word, ...] = ()
    why: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the value is known to be another one than the kernel's default."""
        return self.verdict in ("set", "unknown-writer") and self.default is not None and self.value != self.default
