# SPDX-License-Identifier: Apache-2.0
"""The compiler flags used for the objects of a built kernel, and their text form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

_NO_RECORD = "vmlinux records no flags: it has no debug information from gcc"


def object_lines(objects: BuiltObjects) -> list[tuple[str, str]]:
    lines = [("objects", _flags("C", objects.c, objects.examples))]
    if objects.rust.count:
        lines.append(("", _flags("Rust", objects.rust, objects.examples)))
    if objects.apart:
        lines.append(("", f"{objects.apart} in boot code, the vDSO and the like, which use their own flags"))
    lines.append(("names itself", "; ".join(objects.comments) or "unknown"))
    lines.append(("recorded", "; ".join(objects.producers) or _NO_RECORD))
    return lines


def _flags(language: str, flags: ObjectFlags, examples: Mapping[str, Sequence[str]]) -> str:
    if not flags.count:
        return f"none in {language}"
    both = ", ".join((_spread(flags.targets, "-march", examples), _spread(flags.levels, "-O", examples)))
    return f"{flags.count} in {language}: {both}"


def _spread(counts: Mapping[str, int], kind: str, examples: Mapping[str, Sequence[str]]) -> str:
    """Return `all -O2`, or each flag with its count and some objects that deviate."""
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
    """The number of objects in one language, and how many use each target and level; "" stands for no flag."""

    count: int
    targets: Mapping[str, int]
    levels: Mapping[str, int]


class BuiltObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a build's objects, from the saved commands and vmlinux.

    `apart` counts objects that use their own flags, such as boot code and the vDSO. `examples` names some objects for
    each target except the most common one, and likewise for each level. `comments` and `producers` are the compilers
    that vmlinux names; `producers` needs debug information.
    """

    c: ObjectFlags
    rust: ObjectFlags
    apart: int
    examples: Mapping[str, tuple[str, ...]]
    comments: tuple[str, ...]
    producers: tuple[str, ...]
