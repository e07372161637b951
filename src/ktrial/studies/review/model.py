# SPDX-License-Identifier: Apache-2.0
"""The review of a list of tweaks: one line for each setting, `ktrial.review/1`."""

# No `from __future__ import annotations`: msgspec would evaluate every string annotation at each start.
from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.tuning.knobs.profile import Setting

LineState = Literal[
    "would change",
    "next boot",
    "already set",
    "set again",
    "no effect",
    "gone",
    "not here",
    "not offered",
    "read-only",
    "needs root",
    "invalid",
    "unknown",
    "not understood",
]
"""What a setting would do here. `set again`: a later line of the list sets the same knob, or clears it. `gone`: the
kernel has dropped it. `not here`: this machine, or this build of the kernel, lacks it. `no effect`: the kernel accepts
it, but it cannot matter here. `unknown`: the catalog lacks it.
"""

#: States of settings that a trial on this machine can decide.
OPEN_STATES = frozenset({"would change", "next boot"})


class ReviewedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a reviewed list, or one line that ktrial could not read.

    `setting` is KNOB=VALUE, or null for a line that was not understood. `now` is the value here, if known. `why`
    explains the state; `until` is the last kernel that has the knob. `price` and `security` are what the setting costs.
    `evidence` counts the catalog's claims by status. `measured` lists verdicts of trials on this machine. `next` is the
    command that tries or explains the setting.
    """

    line: int
    text: str
    state: LineState
    setting: str | None = None
    knob: str | None = None
    what: str | None = None
    now: str | None = None
    why: str | None = None
    until: str | None = None
    dangerous: bool = False
    price: str | None = None
    security: str | None = None
    evidence: Mapping[str, int] = {}
    measured: tuple[str, ...] = ()
    next: str | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A reviewed list. `ignored` lists the numbers of lines without a setting.

    `remaining` lists the settings that would change something here and are not dangerous; `left_out` lists the
    dangerous settings that would change something.
    """

    source: str
    read_as: str
    lines: tuple[ReviewedLine, ...]
    ignored: tuple[int, ...]
    remaining: tuple[Setting, ...]
    left_out: tuple[str, ...]
