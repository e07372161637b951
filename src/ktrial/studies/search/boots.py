# SPDX-License-Identifier: Apache-2.0
"""The boot that a point needs: its kernel arguments and its kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktrial.studies.search.dimension_file import ABSENT, BOOT_PREFIX, GIVEN, KCONFIG_PREFIX
from ktrial.studies.search.space import Dimension, Point, Scalar
from ktrial.trial.guests.recipe import KernelChange


def boot_words(dimensions: Iterable[Dimension], point: Point) -> tuple[str, ...]:
    """Return the point's kernel arguments as words of the command line."""
    words = []
    for one in dimensions:
        value = point[one.name]
        if one.kind == "boot" and value != ABSENT:
            name = one.name.removeprefix(BOOT_PREFIX)
            words.append(name if value == GIVEN else f"{name}={value}")
    return tuple(words)


def kernel_change(
    dimensions: Iterable[Dimension], point: Point, kernels: Mapping[str, str]
) -> str | KernelChange | None:
    """Return how the kernel at a point differs from the control's; None if it does not.

    `kernels` maps values of the dimension `kernel` to paths.
    """
    changed = [one for one in dimensions if point[one.name] != one.default]
    named = next((str(point[one.name]) for one in changed if one.kind == "kernel"), None)
    if named is not None:
        return kernels.get(named, named)
    symbols = {one.name.removeprefix(KCONFIG_PREFIX): point[one.name] for one in changed if one.kind == "kconfig"}
    if not symbols:
        return None
    return KernelChange(set={name: value if isinstance(value, int) else str(value) for name, value in symbols.items()})


def changes_at_boot(changes: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Return the kernel arguments among these changes as words of `ktrial boot try`; `-NAME` removes one."""
    words = []
    for name, value in changes.items():
        word = name.removeprefix(BOOT_PREFIX)
        if word != name:
            words.append({ABSENT: f"-{word}", GIVEN: word}.get(str(value), f"{word}={value}"))
    return tuple(words)
