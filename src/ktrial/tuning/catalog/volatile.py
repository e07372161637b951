# SPDX-License-Identifier: Apache-2.0
"""Kernel files that are no tunable state, or that the kernel may change itself: `moving.toml`."""

from __future__ import annotations

from functools import cache

import msgspec

from ktrial.kit.toml_files import BUILT_IN, read_toml


class MovingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files, and why they are left out; with `compared` they are not, and the reason goes with a difference.

    `hidden`: the agent does not even list them, so they are left out by this name, wherever they are.
    """

    path: str
    why: str
    compared: bool = False
    hidden: bool = False


class _Moving(msgspec.Struct, forbid_unknown_fields=True):
    file: list[MovingFile]


@cache
def moving_files() -> tuple[MovingFile, ...]:
    """All entries of `moving.toml`."""
    return tuple(read_toml(BUILT_IN / "moving.toml", _Moving).file)
