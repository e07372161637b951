# SPDX-License-Identifier: Apache-2.0
"""What the objects of a built kernel were compiled with, also as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

_NO_RECORD = "no flags in vmlinux: it has no debug information of gcc's"


def object_lines(objects: BuiltObjects) -> list[tuple[str, str]]:
    """Label and text of each line."""
    lines = [("objects", _flags("C", objects.c, objects.examples))]
    if objects.rust.count:
        lines.append(("", _flags("Rust", objects.rust, objects.examples)))
    if objects.apart:
        lines.append(("", f"{objects.apart} of boot code, vDSO and the like, with flags of their own"))
    lines.append(("names itself", "; ".join(objects.comments) or "not told"))
    lines.append(("recorded", "; ".join(objects.producers) or _NO_RECORD))
    return lines


def _flags(language: str, flags: ObjectFlags, examples: Mapping[str, Sequence[str]]) -> str:
    if not flags.count:
        return f"none in {language}"
    both = ", ".join((_spread(flags.targets, "-march", examples), _spread(flags.levels, "-O", examples)))
    return f"{flags.count} in {language}: {both}"


def _spread(counts: Mapping[str, int], kind: str, examples: Mapping[str, Sequence[str]]) -> str:
    """`all -O2`, or each with its number and some objects of those that differ."""
    if len(counts) == 1:
        (flag,) = counts
        return f"all {flag}" if flag else f"none with {kind}"
    return ", ".join(
        f"{flag or f'no {kind}'} ({count}{_join_names(examples.get(flag, ()), count)})"
        for flag, count in counts.items()
    )


def _join_names(names: Sequence[str], count: int) -> str:
    return f": {' '.join(names)}{' …' if count > len(names) else ''}" if names else ""


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
