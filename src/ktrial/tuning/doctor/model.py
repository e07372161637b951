# SPDX-License-Identifier: Apache-2.0
"""The result of an examination."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.tuning.origin.origin import Origin

Weight = Literal["disturbs", "may-disturb"]


class Confounder(msgspec.Struct, frozen=True, kw_only=True):
    """A current condition that may explain a difference between two measurements, and what to do about it."""

    name: str
    weight: Weight
    found: str
    advice: str


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that cannot be measured or tuned here, with the reason and the remedy."""

    what: str
    why: str
    lift: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many knob instances were examined, with which results."""

    looked_at: int
    at_default: int
    differ: int
    default_unknown: int
    unreadable: int
    absent: int


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """The result of examining a machine.

    `machine` holds (label, text) lines. `named` are knobs that somebody set explicitly and whose default is
    unknown. `unsettled` are transactions in ktrial's own journals that need a decision. `untold` says what could not be
    examined, `unread` which lines of files could not be parsed.
    """

    machine: tuple[tuple[str, str], ...]
    unsettled: tuple[str, ...]
    differ: tuple[Origin, ...]
    named: tuple[Origin, ...]
    confounders: tuple[Confounder, ...]
    limits: tuple[Limit, ...]
    counts: Counts
    untold: tuple[str, ...]
    unread: tuple[str, ...]
