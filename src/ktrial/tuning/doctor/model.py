# SPDX-License-Identifier: Apache-2.0
"""What doctor finds on a machine."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.tuning.origin.origin import Origin

Weight = Literal["disturbs", "may-disturb"]


class Confounder(msgspec.Struct, frozen=True, kw_only=True):
    """A condition present now that may explain a difference between two measurements, and what to do about it."""

    name: str
    weight: Weight
    found: str
    advice: str


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that cannot be measured or tuned here, why, and what would lift that."""

    what: str
    why: str
    lift: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many instances of knobs were looked at, and what became of them."""

    looked_at: int
    at_default: int
    differ: int
    default_unknown: int
    unreadable: int
    absent: int


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """All findings.

    `machine` holds (label, text) lines; `named` are knobs that somebody set and whose default is not known;
    `unsettled` is what ktrial's own journals leave for somebody to decide.
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
