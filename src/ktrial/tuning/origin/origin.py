# SPDX-License-Identifier: Apache-2.0
"""The origin of a knob's value."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Source = Literal[
    "kernel-build", "command-line", "modprobe.d", "zram-generator", "tmpfiles.d", "sysctl.d", "udev", "tuned", "ktrial"
]
#: The order in which sources act; if two name one knob, the later one wins.
ORDER: tuple[Source, ...] = get_args(Source)
Verdict = Literal["set", "kernel-default", "unknown-writer", "nobody-named", "unreadable", "absent"]
"""`set`: a source names the value in force. `kernel-default`: no source names it, and it is the mainline default.
`unknown-writer`: no source names it, and it is not the default. `nobody-named`: no source names it, and the default is
unknown.
"""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says about a knob.

    `place` is `file:line`, a transaction or the command line; `in_force` tells whether the knob has this value.
    """

    source: Source
    place: str
    value: str | None
    text: str
    conditions: tuple[str, ...]
    in_force: bool


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a knob: its value in force, the kernel's default, and who set it.

    `overrode` lists values from earlier lines and from sources that act earlier. `not_in_force` lists values that
    should have won but did not. In each list, the oldest comes first.
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
        return self.verdict in ("set", "unknown-writer") and self.default is not None and self.value != self.default
