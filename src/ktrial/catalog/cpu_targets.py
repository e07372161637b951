# SPDX-License-Identifier: Apache-2.0
"""Reads which CPUs a kernel for arm64 can be built for: `kernels/targets-arm64.toml`."""

from __future__ import annotations

from functools import cache

import msgspec

from ktrial.catalog.loader import Place, read_toml
from ktrial.catalog.model import BUILT_IN
from ktrial.domain.cpu_target import CpuTarget
from ktrial.domain.errors import BadInput


class _Targets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[CpuTarget]


@cache
def load_cpu_targets() -> tuple[CpuTarget, ...]:
    """All targets, in the order of the file."""
    path = BUILT_IN / "kernels" / "targets-arm64.toml"
    found = tuple(read_toml(path, _Targets).target)
    for number, target in enumerate(found):
        try:
            target.check()
        except BadInput as error:
            raise Place(path, f"$.target[{number}]").mended(error) from None
    return found
