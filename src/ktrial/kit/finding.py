# SPDX-License-Identifier: Apache-2.0
"""Findings: typed doubts that accompany a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

FindingLevel = Literal["note", "suspect", "refuse"]
#: The word that ktrial prints for each level.
LEVEL_WORDS: Mapping[FindingLevel, str] = {"refuse": "refused", "suspect": "doubt", "note": "note"}
#: Kinds of findings that say that something other than the arm may cause the difference.
CONFOUNDED = frozenset(
    ("time-and-arm-confounded", "order-unknown", "boot-and-arm-confounded", "machine-and-arm-confounded")
)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A reason to distrust a result.

    `kind` is a stable word for programs, `sentence` is for people, and `values` holds the figures, most often by arm.
    The level `refuse` makes a comparison `not comparable`, `suspect` casts doubt on it, `note` only informs.
    """

    kind: str
    level: FindingLevel
    sentence: str
    values: Mapping[str, float | str] = {}
