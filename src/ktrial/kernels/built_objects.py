# SPDX-License-Identifier: Apache-2.0
"""What the objects of a built kernel were compiled with."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ObjectFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Of objects in one language: how many there are, and how many had which target and level; "" is none."""

    count: int
    targets: Mapping[str, int]
    levels: Mapping[str, int]


class BuiltObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Read from the commands that a build noted beside its objects, and from its vmlinux.

    `apart` counts objects of boot code, vDSO and the like, which have flags of their own. `examples` names some objects
    for each target and level that is not the common one. `comments` and `producers` are the compilers that vmlinux
    names itself; `producers` only where there is debug information.
    """

    c: ObjectFlags
    rust: ObjectFlags
    apart: int
    examples: Mapping[str, tuple[str, ...]]
    comments: tuple[str, ...]
    producers: tuple[str, ...]
