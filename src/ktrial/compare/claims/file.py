# SPDX-License-Identifier: Apache-2.0
"""Files of claims on data, on printed figures and on printed tables of Tukey's test."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction, Unit
from ktrial.kit.toml import parse_bytes

_HINT = "write at least one [[claim]], [[change]] or [[tukey]] table (docs/formats.md)"


class DataClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim on data, `OUTCOME CHANGE`; `arm` is needed if the data have several arms besides the control."""

    says: str
    arm: str | None = None


class ChangeClaim(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"old": "from", "new": "to"}
):
    """A claim on two printed numbers. `others` are numbers that its author may have used as the base by mistake."""

    what: str
    old: str
    new: str
    says: str
    unit: Unit | None = None
    direction: Direction | None = None
    others: Mapping[str, str] = {}


class TukeyGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A printed row with the figures of one group."""

    name: str
    mean: str
    sd: str
    n: int


class TukeyPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A printed comparison of two groups."""

    first: str
    second: str
    q: str
    p: str | None = None


class TukeyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A printed table. The program that printed it shows a p outside of `p_ends` as the nearest end."""

    what: str
    group: tuple[TukeyGroup, ...]
    pair: tuple[TukeyPair, ...]
    p_ends: tuple[float, float] | None = None


class ClaimFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All claims of one file. `source` says where the claims were published."""

    source: str = ""
    about: str = ""
    claim: tuple[DataClaim, ...] = ()
    change: tuple[ChangeClaim, ...] = ()
    tukey: tuple[TukeyTable, ...] = ()


def parse_claim_file(data: bytes, file: str) -> ClaimFile:
    found = parse_bytes(data, file, ClaimFile, _HINT)
    if not (found.claim or found.change or found.tukey):
        raise BadInput("the file has no claims", file=file, hint=_HINT)
    for table in found.tukey:
        names = [group.name for group in table.group]
        unknown = [name for pair in table.pair for name in (pair.first, pair.second) if name not in names]
        small = next((group for group in table.group if group.n < 2), None)
        where = f"the [[tukey]] table {table.what!r}"
        if unknown:
            what = f"{unknown[0]!r} is not a group of {where}"
            hint = f"use one of: {', '.join(names)}" if names else "write the groups of the table"
        elif len(set(names)) != len(names):
            what, hint = f"two groups of {where} have the same name", "rename one of the two groups"
        elif small is not None or not names:
            what = f"{where} has no group" if small is None else f"group {small.name!r} of {where} has n = {small.n}"
            hint = "write the groups of the table, each with n = 2 or more"
        else:
            continue
        raise BadInput(what, file=file, hint=hint)
    return found
