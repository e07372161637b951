# SPDX-License-Identifier: Apache-2.0
"""A list of claims as a file: on data, on printed figures, and on printed tables of Tukey's test."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction, Unit
from ktrial.kit.toml import parse_bytes

_HINT = "it holds [[claim]], [[change]] and [[tukey]] tables: docs/compare.md shows them"


class DataClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On data: `OUTCOME CHANGE`, of `arm` where there are several."""

    says: str
    arm: str | None = None


class ChangeClaim(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"old": "from", "new": "to"}
):
    """On two printed numbers. `others` are numbers that could have been the base by mistake."""

    what: str
    old: str
    new: str
    says: str
    unit: Unit | None = None
    direction: Direction | None = None
    others: Mapping[str, str] = {}


class TukeyGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One printed row of figures."""

    name: str
    mean: str
    sd: str
    n: int


class TukeyPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One printed comparison."""

    first: str
    second: str
    q: str
    p: str | None = None


class TukeyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A printed table. `p_ends` are the least and greatest p that its program prints for all that is beyond them."""

    what: str
    group: tuple[TukeyGroup, ...]
    pair: tuple[TukeyPair, ...]
    p_ends: tuple[float, float] | None = None


class ClaimFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All claims of one file. `source` says where they were made."""

    source: str = ""
    about: str = ""
    claim: tuple[DataClaim, ...] = ()
    change: tuple[ChangeClaim, ...] = ()
    tukey: tuple[TukeyTable, ...] = ()


def parse_claim_file(data: bytes, file: str) -> ClaimFile:
    """Read a file of claims; raises BadInput with the place."""
    found = parse_bytes(data, file, ClaimFile, _HINT)
    if not (found.claim or found.change or found.tukey):
        raise BadInput("no claim is in it", file=file, hint=_HINT)
    for table in found.tukey:
        names = [group.name for group in table.group]
        unknown = [name for pair in table.pair for name in (pair.first, pair.second) if name not in names]
        if unknown or len(set(names)) != len(names) or min((group.n for group in table.group), default=0) < 2:
            what = (
                f"{unknown[0]!r} is not a group of it" if unknown else "its groups need different names and n from 2 on"
            )
            raise BadInput(f"[[tukey]] {table.what!r}: {what}", file=file, hint=f"groups: {', '.join(names)}")
    return found
