# SPDX-License-Identifier: Apache-2.0
"""Reads what a kernel can be built for: `kernels/targets.toml`."""

from __future__ import annotations

from functools import cache

import msgspec

from ktrial.catalog.loader import Place, read_toml
from ktrial.catalog.model import BUILT_IN
from ktrial.domain.errors import BadInput
from ktrial.domain.uarch import Target


class _Targets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[Target]


@cache
def load_targets() -> tuple[Target, ...]:
    """All targets, in the order of the file."""
    path = BUILT_IN / "kernels" / "targets.toml"
    found = tuple(read_toml(path, _Targets).target)
    for number, target in enumerate(found):
        try:
            target.check()
        except BadInput as error:
            raise Place(path, f"$.target[{number}]").mended(error) from None
    return found
