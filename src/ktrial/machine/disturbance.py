# SPDX-License-Identifier: Apache-2.0
"""What may disturb a measurement: jobs that are due while it runs."""

from __future__ import annotations

import msgspec


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """A timer that is due within the expected time, `due_s` after the beginning; the command `stop` prevents it."""

    name: str
    due_s: float
    stop: str


class Quiet(msgspec.Struct, frozen=True, kw_only=True):
    """What is held off while measuring (`sleep`, `idle`), what is not and is due, and why more cannot be told."""

    held_off: tuple[str, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    notes: tuple[str, ...] = ()
