# SPDX-License-Identifier: Apache-2.0
"""Loads the targets of kernels: `kernels/targets.toml`, and `targets-arm64.toml` for arm64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ktrial.kernels.uarch.arm_targets import CpuTarget
from ktrial.kernels.uarch.targets import Target
from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import BUILT_IN, Place, read_toml


class _Targets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[Target]


class _CpuTargets(msgspec.Struct, forbid_unknown_fields=True):
    target: list[CpuTarget]


@cache
def load_targets() -> tuple[Target, ...]:
    path = BUILT_IN / "kernels" / "targets.toml"
    found = read_toml(path, _Targets).target
    _check(path, found)
    return tuple(found)


@cache
def load_cpu_targets() -> tuple[CpuTarget, ...]:
    path = BUILT_IN / "kernels" / "targets-arm64.toml"
    found = read_toml(path, _CpuTargets).target
    _check(path, found)
    return tuple(found)


def _check(path: Path, found: Sequence[Target | CpuTarget]) -> None:
    for number, target in enumerate(found):
        try:
            target.check()
        except BadInput as error:
            raise Place(path, f"$.target[{number}]").mended(error) from None
