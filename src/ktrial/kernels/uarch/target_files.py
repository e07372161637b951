# SPDX-License-Identifier: Apache-2.0
"""Reads what a kernel can be built for: `kernels/targets.toml`, and `targets-arm64.toml` for arm64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec

from ktrial.kernels.uarch.arm_targets import CpuTarget
from ktrial.kernels.uarch.targets import Target
from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import BUILT_IN, Place, read_toml


class _Targets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[Target]


class _CpuTargets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[CpuTarget]


class _Checked(Protocol):
    def check(self) -> None: ...


@cache
def load_targets() -> tuple[Target, ...]:
    """Return all targets of x86, in the order of the file."""
    path = BUILT_IN / "kernels" / "targets.toml"
    found = read_toml(path, _Targets).target
    _check(path, found)
    return tuple(found)


@cache
def load_cpu_targets() -> tuple[CpuTarget, ...]:
    """Return all targets of arm64, in the order of the file."""
    path = BUILT_IN / "kernels" / "targets-arm64.toml"
    found = read_toml(path, _CpuTargets).target
    _check(path, found)
    return tuple(found)


def _check(path: Path, found: Sequence[_Checked]) -> None:
    for number, target in enumerate(found):
        try:
            target.check()
        except BadInput as error:
            raise Place(path, f"$.target[{number}]").mended(error) from None
